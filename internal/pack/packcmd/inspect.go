package packcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

func (a *app) inspect() *cobra.Command {
	var flags archivefile.ArchiveFlags
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "show what an archive contains",
		Long: `Shows what an archive contains, without extracting it: the tiers and agents, what was left
out, and what 'segno unpack' would never extract. It reads only the list of the files, so
its time depends on their number, not on their sizes; 'segno archive verify' reads the files, too.

Of an encrypted archive it shows only the size, unless --identity names a key.`,
		Example:           "  segno archive inspect run.ckpt\n  segno archive inspect run.ckpt --signer team.signers --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.CompleteArchives(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runInspect(args[0], flags)
		},
	}
	flags.Add(c)
	return c
}

// inspection is the result of inspect. An encrypted archive without a key has only the first fields.
type inspection struct {
	File      string `json:"file"`
	FileBytes []byte `json:"file_bytes,omitempty"`
	Bytes     int64  `json:"bytes"` // of the file
	Encrypted bool   `json:"encrypted"`
	*contents
}

type contents struct {
	Digest      string    `json:"state_digest"`
	Created     time.Time `json:"created_at"`
	WrittenHere bool      `json:"written_here"`
	Signed      bool      `json:"signed"`
	Signer      string    `json:"signer,omitempty"`
	// SignatureError is the reason why no allowed signer made the signature. It is set only if the
	// user named signers.
	SignatureError string                           `json:"signature_error,omitempty"`
	Tiers          map[archive.Tier]archivefile.Sum `json:"tiers"`
	Agents         []agentContents                  `json:"agents"`
	World          *archive.WorldInfo               `json:"world,omitempty"`
	Links          int                              `json:"links"`
	Omitted        []archive.Omission               `json:"omitted"`
	// Denied are the files that unpack never extracts. Instructions are the files that an agent
	// reads as instructions.
	Denied       []string                   `json:"denied"`
	Instructions []string                   `json:"instructions"`
	Cut          *archive.Cut               `json:"cut,omitempty"`
	Parent       *archive.ParentInfo        `json:"parent,omitempty"`
	Delta        *archivefile.DeltaContents `json:"delta,omitempty"`
	Scan         *archive.SecretReport      `json:"scan,omitempty"`
	Caller       map[string]any             `json:"caller,omitempty"`
}

// agentContents counts the files of one agent of an archive.
type agentContents struct {
	archive.AgentInfo
	Workspace archivefile.Sum `json:"workspace"`
	Session   archivefile.Sum `json:"session"`
	Thread    archivefile.Sum `json:"thread"`
}

func (a *app) runInspect(name string, flags archivefile.ArchiveFlags) error {
	path, info, err := archivefile.ArchivePath(a.App, name)
	if err != nil {
		return err
	}
	res := inspection{File: path, FileBytes: segno.PathBytes(path), Bytes: info.Size()}
	if res.Encrypted, err = archive.IsSealed(path); err != nil {
		return err
	}
	if res.Encrypted && flags.Identity == "" {
		if flags.Signers != "" {
			_, err := archivefile.OpenArchive(a.App, path, "")
			return err
		}
		return a.Print(res, func(p *cli.Printer) {
			p.Linef("%s: encrypted, %s", cli.QuotePath(name), cli.Size(res.Bytes))
			p.Linef("name the file of the key with --identity to see more")
		})
	}
	r, err := archivefile.OpenDelta(a.App, path, flags)
	if err != nil {
		return err
	}
	defer r.Close()
	if res.contents, err = a.contentsOf(r, flags); err != nil {
		return err
	}
	return a.PrintLong(res, func(p *cli.Printer) { a.writeContents(p, name, &res) })
}

// contentsOf describes an archive from its list of files.
func (a *app) contentsOf(r *archive.Reader, flags archivefile.ArchiveFlags) (*contents, error) {
	m, meta := r.Manifest(), r.Metadata()
	c := &contents{Digest: m.Digest, Created: meta.Created, Signed: r.Signed(), Tiers: map[archive.Tier]archivefile.Sum{}, Agents: []agentContents{},
		World: m.World, Links: len(m.Links), Omitted: append([]archive.Omission{}, m.Omitted...), Denied: append([]string{}, m.Denied()...),
		Instructions: append([]string{}, m.Instructions()...), Cut: m.Cut, Parent: m.Parent, Delta: archivefile.DeltaOf(r), Scan: m.Scan, Caller: meta.Caller}
	c.count(m)
	var err error
	switch c.Signer, err = archivefile.SignedBy(a.App, r, flags.Signers); segno.KindOf(err) {
	case segno.KindRefused, segno.KindCorrupt:
		c.SignatureError = err.Error()
	default:
		if err != nil {
			return nil, err
		}
	}
	c.WrittenHere, err = archivefile.WroteHere(a.App, m.Digest)
	return c, err
}

// count adds up the files of each tier, in total and for each agent.
func (c *contents) count(m *archive.Manifest) {
	at := map[string]int{}
	for i, info := range m.Agents {
		at[info.Name] = i
		c.Agents = append(c.Agents, agentContents{AgentInfo: info})
	}
	for _, e := range m.Entries {
		s := c.Tiers[e.Tier]
		s.Add(e)
		c.Tiers[e.Tier] = s
		parts := strings.SplitN(e.Path, "/", 3) // agents/NAME/…
		if e.Tier == archive.World {
			continue
		}
		switch agent := &c.Agents[at[parts[1]]]; e.Tier {
		case archive.Session:
			agent.Session.Add(e)
		case archive.Thread:
			agent.Thread.Add(e)
		default:
			agent.Workspace.Add(e)
		}
	}
}

func (a *app) writeContents(p *cli.Printer, name string, res *inspection) {
	c := res.contents
	kind := "an archive"
	if res.Encrypted {
		kind = "an encrypted archive"
	}
	when := "an unknown time"
	if !c.Created.IsZero() {
		when = a.When(c.Created)
	}
	p.Linef("%s: %s of %s, %s", p.Bold(cli.QuotePath(name)), kind, when, cli.Size(res.Bytes))
	p.Linef("digest     %s", c.Digest)
	p.Linef("written    %s", c.origin())
	p.Linef("signature  %s", c.signature())
	for _, tier := range []archive.Tier{archive.World, archive.Workspace, archive.Session, archive.Thread} {
		if s, ok := c.Tiers[tier]; ok {
			p.Linef("%s %s", cli.Pad(string(tier), 10), s)
		}
	}
	for _, x := range c.Agents {
		p.Linef("agent      %s", x.describe())
	}
	if c.Links > 0 {
		p.Linef("links      %d, all inside the workspace", c.Links)
	}
	if c.Parent != nil {
		p.Linef("parent     %s (%s)", cli.Inline(c.Parent.Digest), cli.Inline(c.Parent.Kind))
	}
	if c.Delta != nil {
		p.Linef("delta      %s have %s in another archive (%s); unpack needs it with --base", cli.Plural(c.Delta.Files, "file"), cli.Size(c.Delta.Bytes), c.Delta.BaseName())
	}
	p.Linef("moment     %s", describeCut(c.Cut))
	p.Linef("secrets    %s", c.scanned())
	p.List("left out when it was written:", archivefile.Omissions(c.Omitted))
	p.List(p.Warn("never extracted, because it is a place for credentials or runs programs:"), cli.QuotePaths(c.Denied))
	if title := "read by agents as instructions:"; c.WrittenHere {
		p.List(title, cli.QuotePaths(c.Instructions))
	} else {
		p.List(p.Warn("read by agents as instructions, written by a stranger:"), cli.QuotePaths(c.Instructions))
	}
}

// origin describes whether this installation wrote the archive, and the consequences.
func (c *contents) origin() string {
	switch {
	case c.WrittenHere:
		return "here"
	case c.Signer != "":
		return "elsewhere, by an allowed signer: unpack loads its session with --signer"
	}
	return "elsewhere: unpack loads only its workspace, unless --trust-session is given"
}

func (c *contents) signature() string {
	switch {
	case c.Signer != "":
		return "by " + cli.Inline(c.Signer)
	case c.SignatureError != "":
		return cli.Inline(c.SignatureError)
	case c.Signed:
		return "not checked; name a list of allowed signers with --signer"
	}
	return "none"
}

func (x agentContents) describe() string {
	text := cli.Inline(x.Name)
	if x.Backend != "" && x.Backend != x.Name {
		text += " (" + cli.Inline(x.Backend) + ")"
	}
	if x.SessionID != "" {
		text += "  session " + cli.Inline(x.SessionID)
	}
	if x.Thread.Files > 0 {
		return text + fmt.Sprintf("  thread %s", x.Thread)
	}
	return text + fmt.Sprintf("  workspace %s; session %s", x.Workspace, x.Session)
}

// describeCut explains whether the parts of an archive are from the same moment.
func describeCut(c *archive.Cut) string {
	if c == nil {
		return "not recorded"
	}
	switch c.Consistency {
	case archive.Quiet:
		return "quiet: no agent was working"
	case archive.Barrier:
		return "barrier: the agents were stopped for the moment"
	case archive.Crash:
		return "crash: something may have been working, so conversation and files may differ by the last action"
	}
	return cli.Inline(c.Consistency)
}

// scanned describes how far the result of the secret scan can be trusted.
func (c *contents) scanned() string {
	switch {
	case c.Scan == nil:
		return "not scanned"
	case !c.WrittenHere:
		return "the writer reports a scan; this is a claim and not a proof"
	}
	text := "scanned for known forms of credentials; a password in prose is not found"
	if n := len(c.Scan.Allowed); n > 0 {
		text += fmt.Sprintf("; %s allowed", cli.Plural(n, "finding"))
	}
	return text
}

func (a *app) verify() *cobra.Command {
	var flags archivefile.ArchiveFlags
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "read every file of an archive and check it",
		Long: `Reads every file of an archive and checks it against the list of the archive. It writes
nothing. With --signer it also checks that an allowed signer signed this content. A sound
archive can still have a hostile author: a signature answers that, a checksum does not.`,
		Example:           "  segno archive verify run.ckpt\n  segno archive verify run.ckpt --signer team.signers",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.CompleteArchives(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runVerify(c.Context(), args[0], flags)
		},
	}
	flags.Add(c)
	return c
}

type verification struct {
	File        string `json:"file"`
	FileBytes   []byte `json:"file_bytes,omitempty"`
	Digest      string `json:"state_digest"`
	WrittenHere bool   `json:"written_here"`
	Signed      bool   `json:"signed"`
	Signer      string `json:"signer,omitempty"`
	// Delta is set if some files are in another archive. verify did not read the files that Delta
	// counts as missing.
	Delta *archivefile.DeltaContents `json:"delta,omitempty"`
	archivefile.Sum
}

func (a *app) runVerify(ctx context.Context, name string, flags archivefile.ArchiveFlags) error {
	path, _, err := archivefile.ArchivePath(a.App, name)
	if err != nil {
		return err
	}
	r, err := archivefile.OpenDelta(a.App, path, flags)
	if err != nil {
		return err
	}
	defer r.Close()
	m := r.Manifest()
	res := verification{File: path, FileBytes: segno.PathBytes(path), Digest: m.Digest, Signed: r.Signed(),
		Delta: archivefile.DeltaOf(r), Sum: archivefile.TotalOf(m)}
	if res.Signer, err = archivefile.SignedBy(a.App, r, flags.Signers); err != nil {
		return err
	}
	if res.WrittenHere, err = archivefile.WroteHere(a.App, m.Digest); err != nil {
		return err
	}
	if err := r.Verify(ctx, a.Transfer("verifying")); err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	return a.Print(res, func(p *cli.Printer) {
		line := fmt.Sprintf("%s: sound: %s, digest %s", cli.QuotePath(name), res.Sum, res.Digest)
		switch {
		case res.Signer != "":
			line += ", signed by " + cli.Inline(res.Signer)
		case res.Signed:
			line += ", signature not checked"
		}
		p.Linef("%s", line)
		if res.Delta != nil && res.Delta.Missing > 0 {
			p.Linef("%s", p.Warn(fmt.Sprintf("%s of these were not read: the content is in another archive (%s); name it with --base", cli.Plural(res.Delta.Missing, "file"), res.Delta.BaseName())))
		}
	})
}
