package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/secret"
)

type packFlags struct {
	output                     string
	workspaceOnly, omitSession bool
	thread                     bool
	compress, since            string
	encrypt, allow             []string
	sign                       string
}

func (a *app) pack() *cobra.Command {
	var flags packFlags
	c := &cobra.Command{
		Use:   "pack [CHECKPOINT] -o FILE | pack --thread [THREAD] -o FILE",
		Short: "write a checkpoint to one file, to take it elsewhere",
		Long: `Writes a checkpoint (default: the head of the thread) to an archive: one file from which
'segno unpack' makes the files and the conversation again, at another path or on another
machine. Credentials and settings that give an agent abilities are left out.

The text is scanned for secrets. A finding refuses the archive; the message names the file
and the ways to go on. The scan knows forms of credentials and cannot find every secret:
give away only what you have looked at. docs/archive.md explains the format and its safety.

With --since the archive is a delta: it does not repeat what the archive of an earlier
checkpoint has, and 'segno unpack' needs both. With --thread it has the whole thread with all
its lines, so that log, undo and fork work where it is unpacked.`,
		Example: "  segno pack t12 -o run.ckpt\n  segno pack t12 -o share.ckpt --workspace-only\n" +
			"  segno pack -o run.ckpt --encrypt age1… --sign ~/.ssh/id_ed25519",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeCheckpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return a.inWorkspace(func(ctx context.Context, d *openWorkspace, args []string) error {
				return a.runPack(ctx, d, append(args, "")[0], flags)
			})(c, args)
		},
	}
	f := c.Flags()
	f.StringVarP(&flags.output, "output", "o", "", "the `FILE` to write; it must not exist")
	f.BoolVar(&flags.workspaceOnly, "workspace-only", false, "only the files: the form to give away")
	f.BoolVar(&flags.omitSession, "omit-session", false, "leave out the conversation")
	compressFlag(c, &flags.compress)
	f.StringArrayVar(&flags.encrypt, "encrypt", nil, "encrypt for this `RECIPIENT`: age1…, ssh-ed25519 …, or a file of such lines; repeatable")
	f.StringVar(&flags.sign, "sign", "", "sign with this `KEYFILE`, an ed25519 private key of SSH")
	f.StringArrayVar(&flags.allow, "allow", nil, "allow the finding with this `FINGERPRINT`, now and later; repeatable")
	f.StringVar(&flags.since, "since", "", "leave out what the archive of this `CHECKPOINT` has; or a file of an archive")
	f.BoolVar(&flags.thread, "thread", false, "pack the whole thread with all its lines; the argument names the thread")
	f.BoolVar(&a.dryRun, "dry-run", false, "show what would be in the archive and stop")
	completeFlag(c, "output", completeArchives(2))
	return c
}

// compressFlag adds the flag for the compression of archives.
func compressFlag(c *cobra.Command, compress *string) {
	c.Flags().StringVar(compress, "compress", compressZstd, "how to compress conversations: zstd, or `deflate` for every zip program")
	completeFlag(c, "compress", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{compressZstd, compressDeflate}, cobra.ShellCompDirectiveNoFileComp
	})
}

// The values of --compress.
const (
	compressZstd    = "zstd"
	compressDeflate = "deflate"
)

func checkCompress(compress string) error {
	if compress != compressZstd && compress != compressDeflate {
		return usage(fmt.Errorf("--compress %q is neither zstd nor deflate", compress))
	}
	return nil
}

func (f *packFlags) check() error {
	if f.output == "" {
		return usage(errors.New("pack needs -o FILE"))
	}
	if err := checkCompress(f.compress); err != nil {
		return err
	}
	if f.thread && f.since != "" {
		return usage(errors.New("--since is for a checkpoint, and --thread packs all of them"))
	}
	return checkFingerprints(f.allow)
}

type packResult struct {
	File       string               `json:"file"`
	FileBytes  []byte               `json:"file_bytes,omitempty"`
	Checkpoint segno.CommitID       `json:"checkpoint,omitempty"`
	Thread     segno.ThreadID       `json:"thread,omitempty"`       // set instead of a checkpoint
	Digest     string               `json:"state_digest,omitempty"` // not with --dry-run
	Bytes      int64                `json:"bytes,omitempty"`        // of the file
	Tiers      map[archive.Tier]sum `json:"tiers"`
	Omitted    []archive.Omission   `json:"omitted"`
	Encrypted  bool                 `json:"encrypted"`
	Signed     bool                 `json:"signed"`
	Cut        *archive.Cut         `json:"cut,omitempty"`
	Allowed    []string             `json:"allowed"` // fingerprints of allowed findings in the archive
	DryRun     bool                 `json:"dry_run"`
}

func (a *app) runPack(ctx context.Context, d *openWorkspace, name string, flags packFlags) (err error) {
	path := absolute(d.dir, flags.output)
	if err := checkOutput("pack", path); err != nil {
		return err
	}
	records := d.store.Place().Archives()
	o, err := a.writeOptions(ctx, records, flags)
	if err != nil {
		return err
	}
	what, err := a.packed(ctx, d, name, flags)
	defer func() { err = errors.Join(err, what.cleanup()) }()
	if err != nil {
		return err
	}
	if o.Since, err = a.since(ctx, d, flags, o); err != nil {
		return a.printRefused(path, a.explainPack(path, err))
	}
	res := packResult{File: path, FileBytes: segno.PathBytes(path), Checkpoint: what.checkpoint, Thread: what.thread, Encrypted: len(o.Recipients) > 0, Signed: o.Sign != nil,
		Cut: what.state.Cut, Allowed: []string{}, DryRun: a.dryRun}
	if a.dryRun {
		return a.dryPack(res, what.state, what.name)
	}
	if a.isInWorkspace(d, path) {
		a.notef("note: %s is in the workspace, where the agent can read it and the next checkpoint contains it", quotePath(a.relativePath(path)))
	}
	o.Progress = a.transfer("packing")
	m, err := archive.Write(ctx, path, what.state, o)
	a.bar.erase()
	if saveErr := records.SaveVerdicts(o.Verdicts); saveErr != nil { // a refused archive has verdicts, too
		a.notef("segno: %s; the next archive is scanned again", clean(saveErr.Error()))
	}
	if err != nil {
		return a.printRefused(path, a.explainPack(path, err))
	}
	return a.printPacked(ctx, records, res, m, what.name, flags.allow)
}

// packed is the state that pack writes.
type packed struct {
	state      archive.State
	cleanup    func() error // is never nil
	name       string       // for messages
	checkpoint segno.CommitID
	thread     segno.ThreadID // set for an archive of a whole thread
}

// packed returns the state of the checkpoint or thread that the arguments name.
func (a *app) packed(ctx context.Context, d *openWorkspace, name string, flags packFlags) (packed, error) {
	if !flags.thread {
		return a.packedCheckpoint(ctx, d, cmp.Or(name, "@"), flags)
	}
	p := packed{cleanup: func() error { return nil }}
	a.thread = name
	var err error
	if p.thread, err = a.threadID(ctx, d); err != nil {
		return p, err
	}
	p.name = "thread " + short(p.thread)
	p.state, p.cleanup, err = d.packer().ThreadState(ctx, p.thread, flags.options())
	return p, err
}

func (a *app) packedCheckpoint(ctx context.Context, d *openWorkspace, name string, flags packFlags) (packed, error) {
	p := packed{cleanup: func() error { return nil }}
	_, c, err := a.checkpointNamed(ctx, d, name)
	if segno.KindOf(err) == segno.KindNotFound { // a whole id names a checkpoint of any thread
		if line, loadErr := d.store.Load(ctx, segno.CommitID(name), segno.Window{Last: 1}); loadErr == nil && line.Commits[0].Checkpoint != nil {
			c, err = line.Commits[0].Checkpoint, nil
		}
	}
	if err != nil {
		return p, err
	}
	p.name, p.checkpoint = label(c), c.ID
	p.state, p.cleanup, err = d.packer().State(ctx, c.ID, flags.options())
	return p, err
}

func (d *openWorkspace) packer() *pack.Packer {
	place := d.store.Place()
	return &pack.Packer{Store: d.store.Store, FS: place.FS, Temp: place.Archives().Dir()}
}

func (f *packFlags) options() pack.Options {
	return pack.Options{WorkspaceOnly: f.workspaceOnly, OmitSession: f.omitSession}
}

// checkOutput rejects a path where no new file can be made. Callers check it before the long work
// begins.
func checkOutput(op, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return segno.Errorf(segno.KindConflict, op, path, "already exists").WithHint("give a new file with -o")
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return segno.Errorf(segno.KindNotFound, op, filepath.Dir(path), "there is no such directory").WithHint("make it, or give another file with -o")
	}
	return nil
}

// writeOptions reads the keys that the flags name and the records of this installation.
func (a *app) writeOptions(ctx context.Context, records local.Archives, flags packFlags) (o archive.WriteOptions, err error) {
	if o.Recipients, err = a.recipients(flags.encrypt); err != nil {
		return o, err
	}
	if flags.sign != "" {
		if o.Sign, err = a.signer(ctx, flags.sign); err != nil {
			return o, err
		}
	}
	if o.Scanner, o.Allow, err = a.secretScanner(records, flags.allow); err != nil {
		return o, err
	}
	if o.Verdicts, err = records.Verdicts(o.Scanner.Digest()); err != nil {
		return o, err
	}
	o.Deflate = flags.compress == compressDeflate
	o.Record = func(digest string) error { return records.RecordWritten(ctx, digest) }
	return o, nil
}

// isInWorkspace reports whether the path of a new file is below the root of the workspace.
func (a *app) isInWorkspace(d *openWorkspace, path string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(d.rec.Path, dir)
	return err == nil && filepath.IsLocal(rel)
}

// explainPack prints the secrets because of which pack refused an archive. It adds hints to other
// errors.
func (a *app) explainPack(path string, err error) error {
	var found *archive.CheckpointSecretError
	switch {
	case errors.As(err, &found):
	case segno.KindOf(err) == segno.KindConflict:
		return segno.NewError(segno.KindConflict, "", "", err).WithHint("give a new file with -o")
	default:
		return err
	}
	return a.refuseSecrets("pack", path, found.Findings, waysOn(found.Findings))
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
	var found *archive.CheckpointSecretError
	if !errors.As(err, &found) {
		return err
	}
	res := refusedPack{File: path, FileBytes: segno.PathBytes(path), Findings: found.Findings}
	if printErr := a.print(res, func(*printer) {}); printErr != nil {
		return printErr
	}
	return err
}

// waysOn returns the hint for findings. The possible steps depend on the places of the findings.
func waysOn(findings []secret.Finding) string {
	var inSession, inFiles bool
	allow := allowHint(findings)
	for _, f := range findings {
		if isSessionPath(f.Path) {
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

// dryPack prints what an archive would contain. The scan for secrets reads the files, so a dry run
// does not make it.
func (a *app) dryPack(res packResult, state archive.State, name string) error {
	res.Tiers, res.Omitted = map[archive.Tier]sum{}, append([]archive.Omission{}, state.Omitted...)
	add := func(tier archive.Tier, list ...archive.File) {
		for _, f := range list {
			s := res.Tiers[tier]
			s.add(archive.Entry{Size: f.Size})
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
	return a.print(res, func(p *printer) {
		p.linef("pack %s into %s: %s, before credentials are left out", name, quotePath(a.relativePath(res.File)), describeTiers(res.Tiers))
		p.list("left out:", omissions(res.Omitted))
	})
}

func (a *app) printPacked(ctx context.Context, records local.Archives, res packResult, m *archive.Manifest, name string, allow []string) error {
	res.Digest, res.Omitted, res.Tiers = m.Digest, append(res.Omitted, m.Omitted...), map[archive.Tier]sum{}
	if res.Omitted == nil {
		res.Omitted = []archive.Omission{}
	}
	for _, e := range m.Entries {
		s := res.Tiers[e.Tier]
		s.add(e)
		res.Tiers[e.Tier] = s
	}
	if m.Scan != nil {
		res.Allowed = append(res.Allowed, m.Scan.Allowed...)
	}
	if info, err := os.Stat(res.File); err == nil {
		res.Bytes = info.Size()
	}
	a.recordAllowed(ctx, records, allow, res.Allowed)
	return a.print(res, func(p *printer) {
		p.linef("packed %s into %s: %s; the file has %s", name, quotePath(a.relativePath(res.File)), describeTiers(res.Tiers), size(res.Bytes))
		p.linef("digest %s", res.Digest)
		if res.Cut != nil && res.Cut.Consistency != archive.Quiet {
			p.linef("moment %s", describeCut(res.Cut))
		}
		p.list("left out:", omissions(res.Omitted))
		if n := len(res.Allowed); n > 0 {
			p.linef("%s", p.warn(fmt.Sprintf("it contains %s that you allowed: %s", plural(n, "finding"), strings.Join(res.Allowed, ", "))))
		}
	})
}

// describeTiers formats the sizes of the tiers on one line.
func describeTiers(tiers map[archive.Tier]sum) string {
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
