package archivefile

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/cli/secretscan"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/secret"
)

// IsSessionPath reports whether a path of an archive is in the session tier.
func IsSessionPath(name string) bool {
	parts := strings.SplitN(name, "/", 4) // agents/NAME/TIER/…
	return len(parts) == 4 && parts[0] == "agents" && parts[2] == string(archive.Session)
}

// ExplainPack prints the secrets because of which pack refused an archive. It adds hints to other
// errors.
func ExplainPack(a *cli.App, path string, err error) error {
	var found *archive.CheckpointSecretError
	switch {
	case errors.As(err, &found):
	case segno.KindOf(err) == segno.KindConflict:
		return segno.NewError(segno.KindConflict, "", "", err).WithHint("give a new file with -o")
	default:
		return err
	}
	return secretscan.Refuse(a, "pack", path, found.Findings, waysOn(found.Findings))
}

// waysOn returns the hint for findings. The possible steps depend on the places of the findings.
func waysOn(findings []secret.Finding) string {
	var inSession, inFiles bool
	allow := secretscan.AllowHint(findings)
	for _, f := range findings {
		if IsSessionPath(f.Path) {
			inSession = true
		} else {
			inFiles = true
		}
	}
	switch {
	case inSession && inFiles:
		return "remove it from the files, save, and pack with --omit-session; or use " + allow
	case inSession:
		return "use --omit-session to leave out the conversation, or " + allow
	}
	return "remove it from the file, save, and pack that checkpoint; or use " + allow
}

// UnpackResult is the result of an archive that was unpacked.
type UnpackResult struct {
	Dir         string             `json:"dir"`
	DirBytes    []byte             `json:"dir_bytes,omitempty"`
	Digest      string             `json:"state_digest"`
	WrittenHere bool               `json:"written_here"`
	Signer      string             `json:"signer,omitempty"`
	World       string             `json:"world,omitempty"` // the path of the world's document
	Agents      []UnpackedAgent    `json:"agents"`
	Skipped     []archive.Omission `json:"skipped"`
	// Instructions are the paths of new files that an agent reads as instructions.
	Instructions []string       `json:"instructions"`
	Thread       segno.ThreadID `json:"thread,omitempty"` // set for an archive of a thread
	Commits      int            `json:"commits,omitempty"`
	DryRun       bool           `json:"dry_run"`
}

// UnpackedAgent is one agent of an unpacked archive.
type UnpackedAgent struct {
	Name    string          `json:"name"`
	Backend string          `json:"backend"`
	Dir     string          `json:"dir"`
	Session segno.SessionID `json:"session"`
	Command []string        `json:"command"`

	DirBytes []byte `json:"dir_bytes,omitempty"`
}

// Fill copies the outcome of an unpack into the result.
func (res *UnpackResult) Fill(done *pack.Unpacked, m *archive.Manifest) {
	res.Dir, res.DirBytes, res.World = done.Dir, segno.PathBytes(done.Dir), done.World
	res.Skipped = append([]archive.Omission{}, done.Skipped...)
	res.AddSecrets(m)
	for _, x := range done.Agents {
		res.Agents = append(res.Agents, UnpackedAgent{Name: x.Name, Backend: x.Backend, Dir: x.Dir, Session: x.Session,
			Command: append([]string{}, x.Command...), DirBytes: segno.PathBytes(x.Dir)})
	}
	res.Instructions = []string{}
	for _, path := range m.Instructions() {
		if slices.ContainsFunc(done.Skipped, func(o archive.Omission) bool { return o.Path == path }) {
			continue
		}
		parts := strings.SplitN(path, "/", 4) // agents/NAME/workspace/…
		for _, x := range done.Agents {
			if x.Name == parts[1] {
				res.Instructions = append(res.Instructions, filepath.Join(x.Dir, filepath.FromSlash(parts[3])))
			}
		}
	}
}

// AddSecrets adds the parts that the archive lacks because the scan found secrets.
func (res *UnpackResult) AddSecrets(m *archive.Manifest) {
	for _, o := range m.Omitted {
		if o.Why == archive.OmittedSecret {
			res.Skipped = append(res.Skipped, o)
		}
	}
}

// WriteInstructions lists the files that an agent reads as instructions, if the archive is from
// another installation.
func WriteInstructions(a *cli.App, p *cli.Printer, res *UnpackResult) {
	if res.WrittenHere {
		return
	}
	var paths []string
	for _, path := range res.Instructions {
		paths = append(paths, cli.QuotePath(a.RelativePath(path)))
	}
	p.List(p.Warn("look at these files before you start an agent there; it reads them as instructions:"), paths)
}

// Skipped lists the files that unpack did not extract, by reason, and how to get them.
func Skipped(p *cli.Printer, list []archive.Omission) {
	var reasons []string
	groups := map[string][]archive.Omission{}
	for _, o := range list {
		if groups[o.Why] == nil {
			reasons = append(reasons, o.Why)
		}
		groups[o.Why] = append(groups[o.Why], o)
	}
	for _, why := range reasons {
		group := groups[why]
		title := "not extracted, " + cli.Inline(why) + ":"
		switch why {
		case archive.SkippedChoice:
			continue // the user asked to leave it out
		case archive.SkippedForeign:
			p.Linef("%s", p.Warn("not loaded: the conversation and the world, because this archive is from elsewhere"))
			p.Linef("  if you trust its author: unpack it with --trust-session, or with --signer and a list of allowed signers")
			continue
		case archive.OmittedCredential:
			title = "never extracted, because it is a place for credentials or runs programs:"
		case archive.OmittedSecret:
			title = "not in the archive, because the scan found a secret when it was written:"
		}
		p.List(p.Warn(title), Omissions(group))
	}
}

// Importer returns the importer of threads into a store.
func Importer(store *local.Store) *pack.Importer {
	return &pack.Importer{Store: store.Store, Register: store.Register, FS: store.Place().FS, Open: func(rec segno.WorkspaceRecord) (segno.Workspace, error) {
		tl, err := store.Timeline(rec, nil)
		if err != nil {
			return nil, err
		}
		return tl.Workspace, nil
	}}
}

// Unpack unpacks an archive, and imports the sessions of segno's own agent into the store.
func Unpack(a *cli.App, ctx context.Context, r *archive.Reader, into pack.Into) (*pack.Unpacked, error) {
	into.Progress = a.Transfer("unpacking")
	done, err := pack.Unpack(ctx, r, into)
	a.Bar.Erase()
	if err == nil {
		err = importSessions(a, ctx, r, into, done)
	}
	return done, ExplainBadArchive(err)
}

func importSessions(a *cli.App, ctx context.Context, r *archive.Reader, into pack.Into, done *pack.Unpacked) error {
	if !slices.ContainsFunc(r.Manifest().Agents, func(x archive.AgentInfo) bool { return x.SessionFormat == pack.OwnFormat }) {
		return nil
	}
	store, err := a.OpenOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return Importer(store).Sessions(ctx, r, into, done)
}
