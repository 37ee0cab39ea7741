package packcmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

type unpackFlags struct {
	archivefile.ArchiveFlags
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
		ValidArgsFunction: cli.CompleteArchives(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runUnpack(c.Context(), args[0], flags)
		},
	}
	flags.Add(c)
	f := c.Flags()
	f.StringVar(&flags.to, "to", "", "the new directory `DIR`; it must not exist, or be empty")
	f.BoolVar(&flags.trust, "trust-session", false, "load the conversation and the world of an archive from elsewhere")
	f.BoolVar(&flags.newSession, "new-session", false, "give the conversation a new id, also if its id is free")
	f.StringArrayVar(&flags.tiers, "tier", nil, "only this `TIER`: workspace, session or world; repeatable")
	f.StringArrayVar(&flags.agents, "agent", nil, "only the agent of this `NAME`; repeatable")
	f.StringVar(&flags.maxSize, "max-size", "", "refuse more than this `SIZE`, as 500M or 2G (default 256G)")
	f.BoolVar(&a.DryRun, "dry-run", false, "check the archive, show what would be made and stop")
	cli.CompleteFlag(c, "tier", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(archive.Workspace), string(archive.Session), string(archive.World)}, cobra.ShellCompDirectiveNoFileComp
	})
	cli.CompleteFlag(c, "to", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	return c
}

func (a *app) runUnpack(ctx context.Context, name string, flags unpackFlags) error {
	if flags.to == "" {
		return cli.Usage(errors.New("unpack needs --to DIR"))
	}
	into, err := a.unpackInto(flags)
	if err != nil {
		return err
	}
	path, _, err := archivefile.ArchivePath(a.App, name)
	if err != nil {
		return err
	}
	r, err := archivefile.OpenDelta(a.App, path, flags.ArchiveFlags)
	if err != nil {
		return err
	}
	defer r.Close()
	m := r.Manifest()
	if err := checkInto(m, into); err != nil {
		return err
	}
	res := archivefile.UnpackResult{Dir: into.Dir, DirBytes: segno.PathBytes(into.Dir), Digest: m.Digest, Agents: []archivefile.UnpackedAgent{}, DryRun: a.DryRun}
	res.Signer, err = archivefile.SignedBy(a.App, r, flags.Signers)
	if segno.HintOf(err) == "" && segno.KindOf(err) == segno.KindRefused {
		err = segno.NewError(segno.KindRefused, "", "", err).WithHint("leave out --signer to load only the workspace")
	}
	if err != nil {
		return err
	}
	if res.WrittenHere, err = archivefile.WroteHere(a.App, m.Digest); err != nil {
		return err
	}
	into.TrustSession = flags.trust || res.Signer != ""
	into.Ours = func(string) bool { return res.WrittenHere }
	if isThread(m) {
		return a.unpackThread(ctx, r, name, res, into)
	}
	if a.DryRun {
		return a.dryUnpack(ctx, r, res, into)
	}
	done, err := archivefile.Unpack(a.App, ctx, r, into)
	if err != nil {
		return err
	}
	res.Fill(done, m)
	return a.Print(res, func(p *cli.Printer) { a.writeUnpacked(p, name, &res) })
}

// unpackInto makes the options of an unpack from the flags.
func (a *app) unpackInto(flags unpackFlags) (into pack.Into, err error) {
	place, dir, err := a.PlaceAndDir()
	if err != nil {
		return into, err
	}
	into = pack.Into{Dir: cli.Absolute(dir, flags.to), NewSession: flags.newSession, Agents: flags.agents, FS: place.FS,
		Home: func(agent string) string { return pack.DefaultHome(agent, a.Getenv) }}
	for _, name := range flags.tiers {
		tier := archive.Tier(name)
		if tier != archive.Workspace && tier != archive.Session && tier != archive.World {
			return into, cli.Usage(fmt.Errorf("--tier %q is not workspace, session or world", name))
		}
		into.Tiers = append(into.Tiers, tier)
	}
	if flags.maxSize != "" {
		if into.MaxBytes, err = parseSize(flags.maxSize); err != nil {
			return into, cli.Usage(err)
		}
	}
	return into, nil
}

// parseSize parses a size such as "500M". As in the output of size, the units are powers of 1024.
func parseSize(text string) (int64, error) {
	m := regexp.MustCompile(`(?i)^([0-9]{1,9})([KMGT]?)(i?B)?$`).FindStringSubmatch(text)
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

func isThread(m *archive.Manifest) bool { return pack.ThreadAgent(m) != "" }

// checkInto returns an error if the archive does not have the agents of the flags, or the directory cannot be made.
// It runs before the archive is read.
func checkInto(m *archive.Manifest, into pack.Into) error {
	if err := archive.CheckTarget("unpack", into.Dir); err != nil {
		return err
	}
	if !isThread(m) { // an interrupted import of a thread is completed in its directory
		if err := checkEmpty(into.Dir); err != nil {
			return err
		}
	}
	return checkAgents(m, into.Agents)
}

// checkEmpty refuses a directory that exists and is not empty.
func checkEmpty(dir string) error {
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
				WithHint("run 'segno archive inspect' to see its agents")
		}
	}
	return nil
}

func (a *app) writeUnpacked(p *cli.Printer, name string, res *archivefile.UnpackResult) {
	p.Linef("unpacked %s into %s", cli.QuotePath(name), cli.QuotePath(a.RelativePath(res.Dir)))
	if res.World != "" {
		p.Linef("world: %s", cli.QuotePath(a.RelativePath(res.World)))
	}
	archivefile.Skipped(p, res.Skipped)
	archivefile.WriteInstructions(a.App, p, res)
	for _, x := range res.Agents {
		if len(x.Command) > 0 {
			dir := a.RelativePath(x.Dir)
			if a.RelativePath(res.Dir) == "." {
				dir = x.Dir // the directory of the user's shell was replaced
			}
			p.Linef("to continue with %s:\n  cd %s && %s", cli.Inline(x.Name), cli.ShellQuote(dir), cli.CommandLine(x.Command))
		}
	}
}

// dryUnpack checks the archive and prints what unpack would make.
func (a *app) dryUnpack(ctx context.Context, r *archive.Reader, res archivefile.UnpackResult, into pack.Into) error {
	if err := r.Check(archive.Into{Dir: into.Dir, TrustSession: into.TrustSession, Ours: into.Ours, Tiers: into.Tiers, Agents: into.Agents, MaxBytes: into.MaxBytes}); err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	if err := r.Verify(ctx, a.Transfer("verifying")); err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	res.Skipped, res.Instructions = []archive.Omission{}, []string{}
	for _, path := range r.Manifest().Denied() {
		res.Skipped = append(res.Skipped, archive.Omission{Path: path, Why: archive.OmittedCredential})
	}
	res.AddSecrets(r.Manifest())
	text := "the workspace only"
	if into.TrustSession || res.WrittenHere {
		text = "with the conversation"
	}
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("unpack %s into %s, %s", archivefile.TotalOf(r.Manifest()), cli.QuotePath(res.Dir), text)
		archivefile.Skipped(p, res.Skipped)
	})
}
