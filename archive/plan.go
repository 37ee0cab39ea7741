package archive

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/secret"
)

// A plan lists the files of an archive before Write reads them.
type plan struct {
	state    State
	manifest Manifest
	items    []*item // in the order of the archive
	bytes    int64
	tops     int // how many files are before the items
}

// An item is a file that will be in the archive. The compressor fills in the header, the
// hash and the place in the body.
type item struct {
	name string
	tier Tier
	file File

	header header // of the stored content
	sum    [32]byte
	body   io.ReaderAt // a file of compressed contents
	at     int64       // in the body
	// shared is the prefix of the file that the base of a delta has, or nil.
	shared *Prefix
	// scanOnly is set if the file is not in the archive.
	scanOnly bool
}

// newPlan admits the files of a state that an archive can have, and lists the others as omitted.
func newPlan(state State) (*plan, error) {
	p := &plan{state: state, manifest: Manifest{
		Schema: Schema, Cut: state.Cut, Parent: state.Parent, Omitted: slices.Clone(state.Omitted),
	}}
	if w := state.World; w != nil {
		info := w.Info
		p.manifest.World = &info
		p.items = append(p.items, &item{name: worldName, tier: World, file: w.Document})
	}
	agents := slices.SortedFunc(slices.Values(state.Agents), func(a, b AgentState) int { return cmp.Compare(a.Info.Name, b.Info.Name) })
	for _, a := range agents {
		if err := checkName(a.Info.Name); err != nil || strings.Contains(a.Info.Name, "/") {
			return nil, &stateError{fmt.Sprintf("an agent cannot have the name %q", a.Info.Name)}
		}
		p.manifest.Agents = append(p.manifest.Agents, a.Info)
		p.addAgent(a)
	}
	if p.manifest.Agents == nil {
		p.manifest.Agents = []AgentInfo{}
	}
	for _, i := range p.items {
		if i.file.Size < 0 {
			return nil, &stateError{fmt.Sprintf("%s has %d bytes", segno.QuotePath(i.name), i.file.Size)}
		}
		p.bytes += i.file.Size
	}
	if len(p.items) > maxEntries {
		return nil, &stateError{fmt.Sprintf("it has %d files, more than the %d that an archive can have", len(p.items), maxEntries)}
	}
	return p, nil
}

// addAgent adds an agent's files in the order of their paths. If some system treats several names as
// equal, addAgent keeps only the first.
func (p *plan) addAgent(a AgentState) {
	root := "agents/" + a.Info.Name + "/"
	names := newNameSet(len(a.Workspace) + len(a.Session))
	git := a.gitDirs()
	for _, tier := range []struct {
		tier  Tier
		files []File
	}{{Session, a.Session}, {Thread, a.Thread}, {Workspace, a.Workspace}} {
		files := slices.SortedFunc(slices.Values(tier.files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
		for _, f := range files {
			name := root + string(tier.tier) + "/" + f.Path
			if tier.tier == Workspace && git.hasHead(f.Path) {
				p.omit(name, OmittedCredential, f.Size)
			} else if p.admits(name, f.Path, tier.tier, names, f.Size) {
				p.items = append(p.items, &item{name: name, tier: tier.tier, file: f})
			}
		}
	}
	for _, f := range a.Scanned {
		p.items = append(p.items, &item{name: root + string(Thread) + "/" + f.Path, tier: Thread, file: f, scanOnly: true})
	}
	slices.SortFunc(p.items, func(a, b *item) int {
		if (a.tier == World) != (b.tier == World) {
			return map[bool]int{true: -1, false: 1}[a.tier == World]
		}
		return cmp.Compare(a.name, b.name)
	})
	for _, d := range slices.Sorted(slices.Values(a.Dirs)) {
		name := root + string(Workspace) + "/" + d
		if p.admits(name, d, Workspace, names, 0) {
			p.manifest.Dirs = append(p.manifest.Dirs, name)
		}
	}
	var links []Link
	for _, l := range slices.SortedFunc(slices.Values(a.Links), func(a, b Link) int { return cmp.Compare(a.Path, b.Path) }) {
		name := root + string(Workspace) + "/" + l.Path
		switch {
		case deniedLink(l.Path), git.hasHead(l.Path):
			p.omit(name, OmittedCredential, 0)
		case p.admits(name, l.Path, Workspace, names, 0):
			links = append(links, Link{name, l.Target})
		}
	}
	kept, unsafe := splitLinks(links)
	p.manifest.Links = append(p.manifest.Links, kept...)
	for _, l := range unsafe {
		p.omit(l.Path, OmittedLink, 0)
	}
}

// admits reports whether a file may be in the archive, and lists it as omitted if not.
func (p *plan) admits(name, inTier string, tier Tier, names *nameSet, size int64) bool {
	switch {
	case denied(tier, inTier):
		p.omit(name, OmittedCredential, size)
	case checkName(name) != nil || names.add(name) != nil:
		p.omit(name, OmittedName, size)
	default:
		return true
	}
	return false
}

func (p *plan) omit(name, why string, size int64) {
	p.manifest.Omitted = append(p.manifest.Omitted, Omission{Path: printable(name), Why: why, Bytes: size})
}

// printable returns a path as valid UTF-8, because JSON cannot contain other bytes.
func printable(name string) string { return strings.ToValidUTF8(segno.QuotePath(name), "�") }

// judge decides about the secrets that were found in contents, and searches names and descriptions.
func (p *plan) judge(findings []secret.Finding, o *WriteOptions) error {
	if o.OmitFiles {
		findings = p.omitFiles(findings, o)
	}
	findings, err := p.search(findings, o)
	if err != nil {
		return err
	}
	digest := o.Scanner.Digest()
	report := &SecretReport{Rules: "sha256:" + hex.EncodeToString(digest[:])}
	var refused []secret.Finding
	sessions := map[string][]string{} // root of a session → fingerprints
	for _, f := range findings {
		if slices.Contains(o.Allow, f.Fingerprint) {
			report.Allowed = append(report.Allowed, f.Fingerprint)
			continue
		}
		if agent, tier, _, _ := splitPath(f.Path); tier == Session && o.OmitSession {
			root := path.Join("agents", agent, string(Session))
			sessions[root] = append(sessions[root], f.Fingerprint)
			continue
		}
		refused = append(refused, f)
	}
	if len(refused) > 0 {
		return &CheckpointSecretError{Findings: refused}
	}
	slices.Sort(report.Allowed)
	report.Allowed = slices.Compact(report.Allowed)
	p.manifest.Scan = report
	for root, fingerprints := range sessions {
		p.omitSession(root, fingerprints)
	}
	return nil
}

// omitSession removes a session from the plan.
func (p *plan) omitSession(root string, fingerprints []string) {
	slices.Sort(fingerprints)
	o := Omission{Path: root, Why: OmittedSecret, Findings: slices.Compact(fingerprints)}
	p.items = slices.DeleteFunc(p.items, func(i *item) bool {
		inside := strings.HasPrefix(i.name, root+"/")
		if inside {
			o.Files++
			o.Bytes += i.file.Size
		}
		return inside
	})
	p.manifest.Omitted = append(p.manifest.Omitted, o)
}

// secretName stands for a name that is a secret.
const secretName = "(secret)"

// omitFiles removes the parts of workspaces that contain a secret from the plan. It returns the remaining
// findings in contents.
func (p *plan) omitFiles(findings []secret.Finding, o *WriteOptions) (remaining []secret.Finding) {
	isAllowed := func(f secret.Finding) bool { return slices.Contains(o.Allow, f.Fingerprint) }
	inContent := map[string][]string{} // name → fingerprints
	for _, f := range findings {
		if _, tier, _, _ := splitPath(f.Path); tier == Workspace && !isAllowed(f) {
			inContent[f.Path] = append(inContent[f.Path], f.Fingerprint)
		} else {
			remaining = append(remaining, f)
		}
	}
	inText := func(text string) (fingerprints []string) {
		for _, f := range searchText(o.Scanner, text) {
			if !isAllowed(f) {
				fingerprints = append(fingerprints, f.Fingerprint)
			}
		}
		return fingerprints
	}
	omit := func(name string, size int64, target string) bool {
		if _, tier, _, _ := splitPath(name); tier != Workspace {
			return false
		}
		left := Omission{Path: printable(name), Why: OmittedSecret, Bytes: size}
		left.Findings = append(inText(target), inContent[name]...)
		if inName := inText(name); len(inName) > 0 {
			left.Path, left.Findings = p.cleanDir(name, o.Scanner)+secretName, append(left.Findings, inName...)
		}
		slices.Sort(left.Findings)
		left.Findings = slices.Compact(left.Findings)
		if len(left.Findings) > 0 {
			p.manifest.Omitted = append(p.manifest.Omitted, left)
		}
		return len(left.Findings) > 0
	}
	for i, left := range p.manifest.Omitted { // for another reason, and the manifest has the name
		if len(inText(left.Path)) > 0 {
			p.manifest.Omitted[i].Path = p.cleanDir(strings.TrimPrefix(left.Path, `"`), o.Scanner) + secretName
		}
	}
	p.items = slices.DeleteFunc(p.items, func(i *item) bool { return omit(i.name, i.file.Size, "") })
	p.manifest.Dirs = slices.DeleteFunc(p.manifest.Dirs, func(name string) bool { return omit(name, 0, "") })
	p.manifest.Links = slices.DeleteFunc(p.manifest.Links, func(l Link) bool { return omit(l.Path, 0, l.Target) })
	return remaining
}

// entries lists the items in the manifest.
func (p *plan) entries() []Entry {
	list := make([]Entry, 0, len(p.items))
	for _, i := range p.items {
		if i.scanOnly {
			continue
		}
		e := Entry{Path: i.name, Tier: i.tier, Size: i.file.Size, Mode: modeFile, SHA256: hex.EncodeToString(i.sum[:])}
		if i.file.Executable {
			e.Mode = modeExecutable
		}
		if !i.file.Modified.IsZero() {
			e.Modified = strconv.FormatInt(i.file.Modified.UnixNano(), 10)
		}
		list = append(list, e)
	}
	return list
}
