package packcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/cli/secretscan"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack/archivefile"
	"github.com/dalsegno/segno/secret"
)

func (a *app) pack() *cobra.Command {
	var flags archivefile.PackFlags
	c := &cobra.Command{
		Use:   "pack [CHECKPOINT] -o FILE | pack --thread [THREAD] -o FILE",
		Short: "write a checkpoint to one file, to take it elsewhere",
		Long: `Writes a checkpoint (default: the head of the thread) to an archive: one file from which
'segno unpack' makes the files and the conversation again, at another path or on another
machine. Credentials and settings that give an agent abilities are left out. So are changes of
files since the checkpoint; 'segno save' saves them.

The text is scanned for secrets. A finding refuses the archive; the message names the file
and the ways to go on. The scan knows forms of credentials and cannot find every secret:
give away only what you have looked at. docs/archive.md explains the format and its safety.

With --since the archive is a delta: it does not repeat what the archive of an earlier
checkpoint has, and 'segno unpack' needs both. With --thread it has the whole thread with all
its lines, so that log, undo and fork work where it is unpacked.`,
		Example: "  segno pack t12 -o run.ckpt\n  segno pack t12 -o share.ckpt --workspace-only\n" +
			"  segno pack -o run.ckpt --encrypt age1… --sign ~/.ssh/id_ed25519",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := flags.Check(); err != nil {
				return err
			}
			if flags.Thread {
				a.ThreadName = append(args, "")[0] // the thread may work in another directory, or in none
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runPack(ctx, d, append(args, "")[0], flags)
			})(c, args)
		},
	}
	f := c.Flags()
	f.StringVarP(&flags.Output, "output", "o", "", "the `FILE` to write; it must not exist")
	f.BoolVar(&flags.WorkspaceOnly, "workspace-only", false, "only the files: the form to give away")
	f.BoolVar(&flags.OmitSession, "omit-session", false, "leave out the conversation")
	archivefile.CompressFlag(c, &flags.Compress)
	f.StringArrayVar(&flags.Encrypt, "encrypt", nil, "encrypt for this `RECIPIENT`: age1…, ssh-ed25519 …, or a file of such lines; repeatable")
	f.StringVar(&flags.Sign, "sign", "", "sign with this `KEYFILE`, an ed25519 private key of SSH")
	f.StringArrayVar(&flags.Allow, "allow", nil, "allow the finding with this `FINGERPRINT`, now and later; repeatable")
	f.StringVar(&flags.Since, "since", "", "leave out what the archive of this `CHECKPOINT` has; or a file of an archive")
	f.BoolVar(&flags.Thread, "thread", false, "pack the whole thread with all its lines; the argument names the thread")
	f.BoolVar(&a.DryRun, "dry-run", false, "show what would be in the archive and stop")
	cli.CompleteFlag(c, "output", cli.CompleteArchives(2))
	return c
}

type packResult struct {
	File       string                           `json:"file"`
	FileBytes  []byte                           `json:"file_bytes,omitempty"`
	Checkpoint segno.CommitID                   `json:"checkpoint,omitempty"`
	Thread     segno.ThreadID                   `json:"thread,omitempty"`       // set instead of a checkpoint
	Digest     string                           `json:"state_digest,omitempty"` // not with --dry-run
	Bytes      int64                            `json:"bytes,omitempty"`        // of the file
	Tiers      map[archive.Tier]archivefile.Sum `json:"tiers"`
	Omitted    []archive.Omission               `json:"omitted"`
	Encrypted  bool                             `json:"encrypted"`
	Signed     bool                             `json:"signed"`
	Cut        *archive.Cut                     `json:"cut,omitempty"`
	Allowed    []string                         `json:"allowed"` // fingerprints of allowed findings in the archive
	DryRun     bool                             `json:"dry_run"`
}

func (a *app) runPack(ctx context.Context, d *cli.Workspace, name string, flags archivefile.PackFlags) (err error) {
	path := cli.Absolute(d.Dir, flags.Output)
	if err := cli.CheckOutput("pack", path); err != nil {
		return err
	}
	records := d.Store.Place().Archives()
	o, err := archivefile.WriteOptions(a.App, ctx, records, flags)
	if err != nil {
		return err
	}
	what, err := archivefile.Packed(a.App, ctx, d, name, flags)
	defer func() { err = errors.Join(err, what.Cleanup()) }()
	if err != nil {
		return err
	}
	if o.Since, err = archivefile.Since(a.App, ctx, d, flags, o); err != nil {
		return a.printRefused(path, archivefile.ExplainPack(a.App, path, err))
	}
	res := packResult{File: path, FileBytes: segno.PathBytes(path), Checkpoint: what.Checkpoint, Thread: what.Thread, Encrypted: len(o.Recipients) > 0, Signed: o.Sign != nil,
		Cut: what.State.Cut, Allowed: []string{}, DryRun: a.DryRun}
	if a.DryRun {
		return a.dryPack(res, what.State, what.Name)
	}
	if a.isInWorkspace(d, path) {
		a.Notef("note: %s is in the workspace, where the agent can read it and the next checkpoint contains it", cli.QuotePath(a.RelativePath(path)))
	}
	o.Progress = a.Transfer("packing")
	m, err := archive.Write(ctx, path, what.State, o)
	a.Bar.Erase()
	if saveErr := records.SaveVerdicts(o.Verdicts); saveErr != nil { // a refused archive has verdicts, too
		a.Notef("segno: %s; the next archive is scanned again", cli.Clean(saveErr.Error()))
	}
	if err != nil {
		return a.printRefused(path, archivefile.ExplainPack(a.App, path, err))
	}
	return a.printPacked(ctx, records, res, m, what.Name, flags.Allow)
}

// isInWorkspace reports whether the path of a new file is below the root of the workspace.
func (a *app) isInWorkspace(d *cli.Workspace, path string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(d.Rec.Path, dir)
	return err == nil && filepath.IsLocal(rel)
}

// refusedPack is the result of pack if the scan found secrets.
type refusedPack struct {
	File      string           `json:"file"`
	FileBytes []byte           `json:"file_bytes,omitempty"`
	Findings  []secret.Finding `json:"findings"`
}

// printRefused prints the findings of a refused archive as JSON for a script. In text mode the
// findings are already printed.
func (a *app) printRefused(path string, err error) error {
	var found *secretscan.Error
	if !errors.As(err, &found) {
		return err
	}
	res := refusedPack{File: path, FileBytes: segno.PathBytes(path), Findings: found.Findings}
	if printErr := a.Print(res, func(*cli.Printer) {}); printErr != nil {
		return printErr
	}
	return err
}

// dryPack prints what an archive would contain. The scan for secrets reads the files, so a dry run
// does not make it.
func (a *app) dryPack(res packResult, state archive.State, name string) error {
	res.Tiers, res.Omitted = map[archive.Tier]archivefile.Sum{}, append([]archive.Omission{}, state.Omitted...)
	add := func(tier archive.Tier, list ...archive.File) {
		for _, f := range list {
			s := res.Tiers[tier]
			s.Add(archive.Entry{Size: f.Size})
			res.Tiers[tier] = s
		}
	}
	if state.World != nil {
		add(archive.World, state.World.Document)
	}
	for _, x := range state.Agents {
		add(archive.Workspace, x.Workspace...)
		add(archive.Session, x.Session...)
		add(archive.Thread, x.Thread...)
	}
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("pack %s into %s: %s, before credentials are left out", name, cli.QuotePath(a.RelativePath(res.File)), describeTiers(res.Tiers))
		p.List("left out:", archivefile.Omissions(res.Omitted))
	})
}

func (a *app) printPacked(ctx context.Context, records local.Archives, res packResult, m *archive.Manifest, name string, allow []string) error {
	res.Digest, res.Omitted, res.Tiers = m.Digest, append(res.Omitted, m.Omitted...), map[archive.Tier]archivefile.Sum{}
	if res.Omitted == nil {
		res.Omitted = []archive.Omission{}
	}
	for _, e := range m.Entries {
		s := res.Tiers[e.Tier]
		s.Add(e)
		res.Tiers[e.Tier] = s
	}
	if m.Scan != nil {
		res.Allowed = append(res.Allowed, m.Scan.Allowed...)
	}
	if info, err := os.Stat(res.File); err == nil {
		res.Bytes = info.Size()
	}
	secretscan.RecordAllowed(ctx, a.App, records, allow, res.Allowed)
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("packed %s into %s: %s; the file has %s", name, cli.QuotePath(a.RelativePath(res.File)), describeTiers(res.Tiers), cli.Size(res.Bytes))
		p.Linef("digest %s", res.Digest)
		if res.Cut != nil && res.Cut.Consistency != archive.Quiet {
			p.Linef("moment %s", describeCut(res.Cut))
		}
		p.List("left out:", archivefile.Omissions(res.Omitted))
		if n := len(res.Allowed); n > 0 {
			p.Linef("%s", p.Warn(fmt.Sprintf("it contains %s that you allowed: %s", cli.Plural(n, "finding"), strings.Join(res.Allowed, ", "))))
		}
	})
}

// describeTiers formats the sizes of the tiers on one line.
func describeTiers(tiers map[archive.Tier]archivefile.Sum) string {
	var parts []string
	for _, tier := range []archive.Tier{archive.World, archive.Workspace, archive.Session, archive.Thread} {
		if s, ok := tiers[tier]; ok {
			parts = append(parts, fmt.Sprintf("%s %s", tier, s))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}
