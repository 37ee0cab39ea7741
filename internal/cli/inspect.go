package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
)

func (a *app) inspect() *cobra.Command {
	var flags archiveFlags
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "show what an archive contains",
		Long: `Shows what an archive contains, without extracting it: the tiers and agents, what was left
out, and what 'segno unpack' would never extract. It reads only the list of the files, so
it takes the same time for an archive of any size; 'segno verify' reads the files, too.

Of an encrypted archive it shows only the size, unless --identity names a key.`,
		Example:           "  segno inspect run.ckpt\n  segno inspect run.ckpt --signer team.signers --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeArchives(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runInspect(args[0], flags)
		},
	}
	flags.add(c)
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
	SignatureError string               `json:"signature_error,omitempty"`
	Tiers          map[archive.Tier]sum `json:"tiers"`
	Agents         []agentContents      `json:"agents"`
	World          *archive.WorldInfo   `json:"world,omitempty"`
	Links          int                  `json:"links"`
	Omitted        []archive.Omission   `json:"omitted"`
	// Denied are the files that unpack never extracts. Instructions are the files that an agent
	// reads as instructions.
	Denied       []string              `json:"denied"`
	Instructions []string              `json:"instructions"`
	Cut          *archive.Cut          `json:"cut,omitempty"`
	Parent       *archive.ParentInfo   `json:"parent,omitempty"`
	Delta        *deltaContents        `json:"delta,omitempty"`
	Scan         *archive.SecretReport `json:"scan,omitempty"`
	Caller       map[string]any        `json:"caller,omitempty"`
}

// agentContents counts the files of one agent of an archive.
type agentContents struct {
	archive.AgentInfo
	Workspace sum `json:"workspace"`
	Session   sum `json:"session"`
	Thread    sum `json:"thread"`
}

func (a *app) runInspect(name string, flags archiveFlags) error {
	path, info, err := a.archivePath(name)
	if err != nil {
		return err
	}
	res := inspection{File: path, FileBytes: segno.PathBytes(path), Bytes: info.Size()}
	if res.Encrypted, err = archive.IsSealed(path); err != nil {
		return err
	}
	if res.Encrypted && flags.identity == "" {
		if flags.signers != "" {
			_, err := a.openArchive(path, "")
			return err
		}
		return a.print(res, func(p *printer) {
			p.linef("%s: encrypted, %s", quotePath(name), size(res.Bytes))
			p.linef("name the file of the key with --identity to see more")
		})
	}
	r, err := a.openDelta(path, flags)
	if err != nil {
		return err
	}
	defer r.Close()
	if res.contents, err = a.contentsOf(r, flags); err != nil {
		return err
	}
	return a.printLong(res, func(p *printer) { a.writeContents(p, name, &res) })
}

// contentsOf describes an archive from its list of files.
func (a *app) contentsOf(r *archive.Reader, flags archiveFlags) (*contents, error) {
	m, meta := r.Manifest(), r.Metadata()
	c := &contents{Digest: m.Digest, Created: meta.Created, Signed: r.Signed(), Tiers: map[archive.Tier]sum{}, Agents: []agentContents{},
		World: m.World, Links: len(m.Links), Omitted: append([]archive.Omission{}, m.Omitted...), Denied: append([]string{}, m.Denied()...),
		Instructions: append([]string{}, m.Instructions()...), Cut: m.Cut, Parent: m.Parent, Delta: deltaOf(r), Scan: m.Scan, Caller: meta.Caller}
	c.count(m)
	var err error
	switch c.Signer, err = a.signedBy(r, flags.signers); segno.KindOf(err) {
	case segno.KindRefused, segno.KindCorrupt:
		c.SignatureError = err.Error()
	default:
		if err != nil {
			return nil, err
		}
	}
	c.WrittenHere, err = a.wroteHere(m.Digest)
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
		s.add(e)
		c.Tiers[e.Tier] = s
		parts := strings.SplitN(e.Path, "/", 3) // agents/NAME/…
		if e.Tier == archive.World {
			continue
		}
		switch agent := &c.Agents[at[parts[1]]]; e.Tier {
		case archive.Session:
			agent.Session.add(e)
		case archive.Thread:
			agent.Thread.add(e)
		default:
			agent.Workspace.add(e)
		}
	}
}

func (a *app) writeContents(p *printer, name string, res *inspection) {
	c := res.contents
	kind := "an archive"
	if res.Encrypted {
		kind = "an encrypted archive"
	}
	when := "an unknown time"
	if !c.Created.IsZero() {
		when = a.when(c.Created)
	}
	p.linef("%s: %s of %s, %s", p.bold(quotePath(name)), kind, when, size(res.Bytes))
	p.linef("digest     %s", c.Digest)
	p.linef("written    %s", c.origin())
	p.linef("signature  %s", c.signature())
	for _, tier := range []archive.Tier{archive.World, archive.Workspace, archive.Session, archive.Thread} {
		if s, ok := c.Tiers[tier]; ok {
			p.linef("%s %s", pad(string(tier), 10), s)
		}
	}
	for _, x := range c.Agents {
		p.linef("agent      %s", x.describe())
	}
	if c.Links > 0 {
		p.linef("links      %d, all inside the workspace", c.Links)
	}
	if c.Parent != nil {
		p.linef("parent     %s (%s)", inline(c.Parent.Digest), inline(c.Parent.Kind))
	}
	if c.Delta != nil {
		p.linef("delta      %s have %s in another archive (%s); unpack needs it with --base", plural(c.Delta.Files, "file"), size(c.Delta.Bytes), c.Delta.base())
	}
	p.linef("moment     %s", describeCut(c.Cut))
	p.linef("secrets    %s", c.scanned())
	p.list("left out when it was written:", omissions(c.Omitted))
	p.list(p.warn("never extracted, because it is a place for credentials or runs programs:"), quotePaths(c.Denied))
	if title := "read by agents as instructions:"; c.WrittenHere {
		p.list(title, quotePaths(c.Instructions))
	} else {
		p.list(p.warn("read by agents as instructions, written by a stranger:"), quotePaths(c.Instructions))
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
		return "by " + inline(c.Signer)
	case c.SignatureError != "":
		return inline(c.SignatureError)
	case c.Signed:
		return "not checked; name a list of allowed signers with --signer"
	}
	return "none"
}

func (x agentContents) describe() string {
	text := inline(x.Name)
	if x.Backend != "" && x.Backend != x.Name {
		text += " (" + inline(x.Backend) + ")"
	}
	if x.SessionID != "" {
		text += "  session " + inline(x.SessionID)
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
	return inline(c.Consistency)
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
		text += fmt.Sprintf("; %s allowed", plural(n, "finding"))
	}
	return text
}

func (a *app) verify() *cobra.Command {
	var flags archiveFlags
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "read every file of an archive and check it",
		Long: `Reads every file of an archive and checks it against the list of the archive. It writes
nothing. With --signer it also checks that an allowed signer signed this content. A sound
archive can still have a hostile author: a signature answers that, a checksum does not.`,
		Example:           "  segno verify run.ckpt\n  segno verify run.ckpt --signer team.signers",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeArchives(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runVerify(c.Context(), args[0], flags)
		},
	}
	flags.add(c)
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
	Delta *deltaContents `json:"delta,omitempty"`
	sum
}

func (a *app) runVerify(ctx context.Context, name string, flags archiveFlags) error {
	path, _, err := a.archivePath(name)
	if err != nil {
		return err
	}
	r, err := a.openDelta(path, flags)
	if err != nil {
		return err
	}
	defer r.Close()
	m := r.Manifest()
	res := verification{File: path, FileBytes: segno.PathBytes(path), Digest: m.Digest, Signed: r.Signed(),
		Delta: deltaOf(r), sum: totalOf(m)}
	if res.Signer, err = a.signedBy(r, flags.signers); err != nil {
		return err
	}
	if res.WrittenHere, err = a.wroteHere(m.Digest); err != nil {
		return err
	}
	if err := r.Verify(ctx, a.transfer("verifying")); err != nil {
		return explainBadArchive(err)
	}
	return a.print(res, func(p *printer) {
		line := fmt.Sprintf("%s: sound: %s, digest %s", quotePath(name), res.sum, res.Digest)
		switch {
		case res.Signer != "":
			line += ", signed by " + inline(res.Signer)
		case res.Signed:
			line += ", signature not checked"
		}
		p.linef("%s", line)
		if res.Delta != nil && res.Delta.Missing > 0 {
			p.linef("%s", p.warn(fmt.Sprintf("%s of these were not read: the content is in another archive (%s); name it with --base", plural(res.Delta.Missing, "file"), res.Delta.base())))
		}
	})
}
