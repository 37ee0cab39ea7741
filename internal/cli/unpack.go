package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
)

type unpackFlags struct {
	archiveFlags
	to                string
	trust, newSession bool
	tiers, agents     []string
	maxSize           string
}

func (a *app) unpack() *cobra.Command {
	var flags unpackFlags
	c := &cobra.Command{
		Use:   "unpack FILE --to DIR",
		Short: "make the files and the conversation of an archive again, in a new directory",
		Long: `Makes a new directory with the files of an archive, and a session of the agent that
continues there. The whole archive is checked before the first byte is written, and the
directory appears when it is complete.

The conversation is loaded only if the archive was written by this installation, if an
allowed signer signed it (--signer), or with --trust-session: its author could put words
into the mouths of you and your agent. Credentials and settings that give an agent
abilities are never extracted.`,
		Example: "  segno unpack run.ckpt --to ~/elsewhere\n  segno unpack run.ckpt --to ~/elsewhere --signer team.signers\n" +
			"  segno unpack share.ckpt --to look --tier workspace",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeArchives(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runUnpack(c.Context(), args[0], flags)
		},
	}
	flags.add(c)
	f := c.Flags()
	f.StringVar(&flags.to, "to", "", "the new directory `DIR`; it must not exist, or be empty")
	f.BoolVar(&flags.trust, "trust-session", false, "load the conversation and the world of an archive from elsewhere")
	f.BoolVar(&flags.newSession, "new-session", false, "give the conversation a new id, also if its id is free")
	f.StringArrayVar(&flags.tiers, "tier", nil, "only this `TIER`: workspace, session or world; repeatable")
	f.StringArrayVar(&flags.agents, "agent", nil, "only the agent of this `NAME`; repeatable")
	f.StringVar(&flags.maxSize, "max-size", "", "refuse more than this `SIZE`, as 500M or 2G (default 256G)")
	f.BoolVar(&a.dryRun, "dry-run", false, "check the archive, show what would be made and stop")
	completeFlag(c, "tier", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(archive.Workspace), string(archive.Session), string(archive.World)}, cobra.ShellCompDirectiveNoFileComp
	})
	completeFlag(c, "to", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	return c
}

type unpackResult struct {
	Dir         string             `json:"dir"`
	DirBytes    []byte             `json:"dir_bytes,omitempty"`
	Digest      string             `json:"state_digest"`
	WrittenHere bool               `json:"written_here"`
	Signer      string             `json:"signer,omitempty"`
	World       string             `json:"world,omitempty"` // the path of the world's document
	Agents      []unpackedAgent    `json:"agents"`
	Skipped     []archive.Omission `json:"skipped"`
	// Instructions are the paths of new files that an agent reads as instructions.
	Instructions []string       `json:"instructions"`
	Thread       segno.ThreadID `json:"thread,omitempty"` // set for an archive of a thread
	Commits      int            `json:"commits,omitempty"`
	DryRun       bool           `json:"dry_run"`
}

type unpackedAgent struct {
	Name    string          `json:"name"`
	Backend string          `json:"backend"`
	Dir     string          `json:"dir"`
	Session segno.SessionID `json:"session"`
	Command []string        `json:"command"`

	DirBytes []byte `json:"dir_bytes,omitempty"`
}

func (a *app) runUnpack(ctx context.Context, name string, flags unpackFlags) error {
	if flags.to == "" {
		return usage(errors.New("unpack needs --to DIR"))
	}
	into, err := a.unpackInto(flags)
	if err != nil {
		return err
	}
	path, _, err := a.archivePath(name)
	if err != nil {
		return err
	}
	r, err := a.openDelta(path, flags.archiveFlags)
	if err != nil {
		return err
	}
	defer r.Close()
	m := r.Manifest()
	isThread := pack.ThreadAgent(m) != ""
	if err := archive.CheckTarget("unpack", into.Dir); err != nil {
		return err
	}
	if !isThread { // an interrupted import of a thread is completed in its directory
		if err := checkTarget(into.Dir); err != nil {
			return err
		}
	}
	if err := checkAgents(m, flags.agents); err != nil {
		return err
	}
	res := unpackResult{Dir: into.Dir, DirBytes: segno.PathBytes(into.Dir), Digest: m.Digest, Agents: []unpackedAgent{}, DryRun: a.dryRun}
	if res.Signer, err = a.signedBy(r, flags.signers); err != nil {
		if segno.HintOf(err) == "" && segno.KindOf(err) == segno.KindRefused {
			err = segno.NewError(segno.KindRefused, "", "", err).WithHint("leave out --signer to load only the workspace")
		}
		return err
	}
	if res.WrittenHere, err = a.wroteHere(m.Digest); err != nil {
		return err
	}
	into.TrustSession = flags.trust || res.Signer != ""
	into.Ours = func(string) bool { return res.WrittenHere }
	if isThread {
		return a.unpackThread(ctx, r, name, res, into)
	}
	if a.dryRun {
		return a.dryUnpack(ctx, r, res, into)
	}
	into.Progress = a.transfer("unpacking")
	done, err := pack.Unpack(ctx, r, into)
	a.bar.erase()
	if err == nil {
		err = a.unpackSessions(ctx, r, into, done)
	}
	if err != nil {
		return explainBadArchive(err)
	}
	res.fill(done, m)
	return a.print(res, func(p *printer) { a.writeUnpacked(p, name, &res) })
}

// unpackInto makes the options of an unpack from the flags.
func (a *app) unpackInto(flags unpackFlags) (into pack.Into, err error) {
	place, dir, err := a.placeAndDir()
	if err != nil {
		return into, err
	}
	into = pack.Into{Dir: absolute(dir, flags.to), NewSession: flags.newSession, Agents: flags.agents, FS: place.FS,
		Home: func(agent string) string { return pack.DefaultHome(agent, a.Getenv) }}
	for _, name := range flags.tiers {
		tier := archive.Tier(name)
		if tier != archive.Workspace && tier != archive.Session && tier != archive.World {
			return into, usage(fmt.Errorf("--tier %q is not workspace, session or world", name))
		}
		into.Tiers = append(into.Tiers, tier)
	}
	if flags.maxSize != "" {
		if into.MaxBytes, err = parseSize(flags.maxSize); err != nil {
			return into, usage(err)
		}
	}
	return into, nil
}

var sizeText = regexp.MustCompile(`(?i)^([0-9]{1,9})([KMGT]?)(i?B)?$`)

// parseSize parses a size such as "500M". As in the output of size, the units are powers of 1024.
func parseSize(text string) (int64, error) {
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("--max-size %q is not a size as 500M or 2G", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	shift := 10 * strings.Index("-KMGT", strings.ToUpper(m[2]))
	if m[2] == "" {
		shift = 0
	}
	if err != nil || n == 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("--max-size %q is too small or too large", text)
	}
	return n << shift, nil
}

// checkTarget refuses a directory that exists and is not empty. It runs before the archive is read.
func checkTarget(dir string) error {
	switch there, err := os.ReadDir(dir); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return segno.NewError(segno.KindConflict, "unpack", dir, err).WithHint("give a new directory with --to")
	case len(there) > 0:
		return segno.Errorf(segno.KindConflict, "unpack", dir, "the directory is not empty").WithHint("give a new directory with --to")
	}
	return nil
}

// checkAgents returns an error for a name that no agent of the archive has.
func checkAgents(m *archive.Manifest, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(m.Agents, func(x archive.AgentInfo) bool { return x.Name == name }) {
			return segno.Errorf(segno.KindNotFound, "unpack", name, "the archive has no such agent").
				WithHint("run 'segno inspect' to see its agents")
		}
	}
	return nil
}

// fill copies the outcome of an unpack into the result.
func (res *unpackResult) fill(done *pack.Unpacked, m *archive.Manifest) {
	res.Dir, res.DirBytes, res.World = done.Dir, segno.PathBytes(done.Dir), done.World
	res.Skipped = append([]archive.Omission{}, done.Skipped...)
	res.addSecrets(m)
	for _, x := range done.Agents {
		res.Agents = append(res.Agents, unpackedAgent{Name: x.Name, Backend: x.Backend, Dir: x.Dir, Session: x.Session,
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

// addSecrets adds the parts that the archive lacks because the scan found secrets.
func (res *unpackResult) addSecrets(m *archive.Manifest) {
	for _, o := range m.Omitted {
		if o.Why == archive.OmittedSecret {
			res.Skipped = append(res.Skipped, o)
		}
	}
}

func (a *app) writeUnpacked(p *printer, name string, res *unpackResult) {
	p.linef("unpacked %s into %s", quotePath(name), quotePath(a.relativePath(res.Dir)))
	if res.World != "" {
		p.linef("world: %s", quotePath(a.relativePath(res.World)))
	}
	p.skipped(res.Skipped)
	a.writeInstructions(p, res)
	for _, x := range res.Agents {
		if len(x.Command) > 0 {
			dir := a.relativePath(x.Dir)
			if a.relativePath(res.Dir) == "." {
				dir = x.Dir // the directory of the user's shell was replaced
			}
			p.linef("to continue with %s:\n  cd %s && %s", inline(x.Name), shellQuote(dir), commandLine(x.Command))
		}
	}
}

// writeInstructions lists the files that an agent reads as instructions, if the archive is from
// another installation.
func (a *app) writeInstructions(p *printer, res *unpackResult) {
	if res.WrittenHere {
		return
	}
	var paths []string
	for _, path := range res.Instructions {
		paths = append(paths, quotePath(a.relativePath(path)))
	}
	p.list(p.warn("look at these files before you start an agent there; it reads them as instructions:"), paths)
}

// skipped lists the files that unpack did not extract, by reason, and how to get them.
func (p *printer) skipped(list []archive.Omission) {
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
		title := "not extracted, " + inline(why) + ":"
		switch why {
		case archive.SkippedChoice:
			continue // the user asked to leave it out
		case archive.SkippedForeign:
			p.linef("%s", p.warn("not loaded: the conversation and the world, because this archive is from elsewhere"))
			p.linef("  if you trust its author: unpack it with --trust-session, or with --signer and a list of allowed signers")
			continue
		case archive.OmittedCredential:
			title = "never extracted, because it is a place for credentials or runs programs:"
		case archive.OmittedSecret:
			title = "not in the archive, because the scan found a secret when it was written:"
		}
		p.list(p.warn(title), omissions(group))
	}
}

// dryUnpack checks the archive and prints what unpack would make.
func (a *app) dryUnpack(ctx context.Context, r *archive.Reader, res unpackResult, into pack.Into) error {
	if err := r.Check(archive.Into{Dir: into.Dir, TrustSession: into.TrustSession, Ours: into.Ours, Tiers: into.Tiers, Agents: into.Agents, MaxBytes: into.MaxBytes}); err != nil {
		return explainBadArchive(err)
	}
	if err := r.Verify(ctx, a.transfer("verifying")); err != nil {
		return explainBadArchive(err)
	}
	res.Skipped, res.Instructions = []archive.Omission{}, []string{}
	for _, path := range r.Manifest().Denied() {
		res.Skipped = append(res.Skipped, archive.Omission{Path: path, Why: archive.OmittedCredential})
	}
	res.addSecrets(r.Manifest())
	text := "the workspace only"
	if into.TrustSession || res.WrittenHere {
		text = "with the conversation"
	}
	return a.print(res, func(p *printer) {
		p.linef("unpack %s into %s, %s", totalOf(r.Manifest()), quotePath(res.Dir), text)
		p.skipped(res.Skipped)
	})
}
