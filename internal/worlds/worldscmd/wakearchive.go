package worldscmd

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/pack/archivefile"
	"github.com/dalsegno/segno/internal/worlds/credential"
)

func (a *app) packCheckpoint(ctx context.Context, d *cli.Workspace, at segno.CommitID, path string) (m *archive.Manifest, err error) {
	records := d.Store.Place().Archives()
	o, err := archivefile.WriteOptions(a.App, ctx, records, archivefile.PackFlags{Compress: archivefile.CompressZstd})
	if err != nil {
		return nil, err
	}
	state, cleanup, err := archivefile.Packer(d).State(ctx, at, pack.Options{})
	defer func() { err = errors.Join(err, cleanup()) }()
	if err != nil {
		return nil, err
	}
	m, err = archive.Write(ctx, path, state, o)
	if saveErr := records.SaveVerdicts(o.Verdicts); saveErr != nil {
		a.Notef("segno: %s; the next archive is scanned again", cli.Clean(saveErr.Error()))
	}
	return m, archivefile.ExplainPack(a.App, path, err)
}

type wakeArchiveResult struct {
	archivefile.UnpackedAgent
	Home         string             `json:"home"`
	Run          string             `json:"run"`
	Digest       string             `json:"state_digest"`
	Login        *credential.Result `json:"login,omitempty"`
	Skipped      []archive.Omission `json:"skipped"`
	Instructions []string           `json:"instructions"`
}

const wakeArchiveOp = "wake archive"

// wakeInto makes the directories of an agent from an archive. It makes the workspace last, so the user can repeat a
// wake that was killed earlier.
func (a *app) wakeInto(ctx context.Context, path string, flags wakeFlags) error {
	local, wd, err := a.PlaceAndDir()
	if err != nil {
		return err
	}
	r, err := archivefile.OpenDelta(a.App, path, flags.ArchiveFlags)
	if err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	defer r.Close()
	m := r.Manifest()
	into, err := a.checkWake(ctx, r, flags)
	if err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	to := cli.Absolute(wd, flags.to)
	if err := archive.CheckTarget(wakeArchiveOp, pack.AgentDir(to).Workspace()); err != nil {
		return err
	}
	dir, err := cli.RealPath(to)
	place := pack.AgentDir(dir)
	if err == nil {
		err = place.Prepare(local.FS)
	}
	if err != nil {
		return err
	}
	res := wakeArchiveResult{Home: place.Home(), Run: place.Run(), Digest: m.Digest}
	backend := m.Agents[0].Backend
	login, err := credential.Merge(ctx, local.FS, backend, res.Home, credential.UserFile(backend, local.UserHome, a.Getenv))
	if err != nil {
		return err
	}
	if len(login.Taken)+len(login.Kept) > 0 {
		res.Login = &login
	}
	into.Dir, into.FS = place.Workspace(), local.FS
	into.Home = func(agent string) string { return pack.DefaultHome(agent, homeVariable(res.Home)) }
	done, err := archivefile.Unpack(a.App, ctx, r, into)
	if err != nil {
		return err
	}
	return a.printWoken(ctx, done, m, res)
}

// homeVariable returns a getenv function that knows only the home directory.
func homeVariable(home string) func(string) string {
	return func(variable string) string {
		if variable == "HOME" {
			return home
		}
		return ""
	}
}

// checkWake makes all checks of an archive that are possible before anything is written.
func (a *app) checkWake(ctx context.Context, r *archive.Reader, flags wakeFlags) (into pack.Into, err error) {
	m := r.Manifest()
	switch {
	case pack.ThreadAgent(m) != "":
		return into, segno.Errorf(segno.KindInvalid, wakeArchiveOp, "", "it has a whole thread").WithHint("run 'segno unpack' and then 'segno resume'")
	case m.World != nil:
		return into, segno.Errorf(segno.KindInvalid, wakeArchiveOp, "", "it has a world").WithHint("name the file of its experiment with --experiment")
	case len(m.Agents) != 1:
		return into, segno.Errorf(segno.KindInvalid, wakeArchiveOp, "", "it has %d agents", len(m.Agents)).WithHint("use 'segno unpack --agent NAME'")
	case len(m.Tree(m.Agents[0].Name, archive.Session)) == 0:
		return into, segno.Errorf(segno.KindRefused, wakeArchiveOp, "", "it has no conversation").WithHint("use 'segno unpack' for its files")
	}
	if err := r.Verify(ctx, nil); err != nil {
		return into, err
	}
	signer, err := archivefile.SignedBy(a.App, r, flags.Signers)
	if err != nil {
		return into, err
	}
	isOurs, err := archivefile.WroteHere(a.App, m.Digest)
	if err != nil {
		return into, err
	}
	if !isOurs && signer == "" && !flags.trust {
		return into, segno.Errorf(segno.KindRefused, wakeArchiveOp, "", "it was not written on this machine").
			WithHint("use --trust-session if you know its author, or --signer with a list of allowed signers")
	}
	into.TrustSession = true
	return into, nil
}

// printWoken prints the command that continues the agent, and runs it on a terminal.
func (a *app) printWoken(ctx context.Context, done *pack.Unpacked, m *archive.Manifest, res wakeArchiveResult) error {
	var u archivefile.UnpackResult
	u.Fill(done, m)
	res.UnpackedAgent, res.Skipped, res.Instructions = u.Agents[0], u.Skipped, u.Instructions
	if res.Backend == chat.Name {
		return a.PrintAndRun(ctx, func() {}, cli.ResumeResult{Dir: res.Dir, Session: res.Session, Command: res.Command}, res, false)
	}
	env := []string{"env", "HOME=" + res.Home, "TMPDIR=" + res.Run}
	if name, dir := pack.HomeVariable(res.Backend, res.Home); name != "" {
		env = append(env, name+"="+dir)
	}
	res.Command = append(env, res.Command...)
	var err error
	if u.WrittenHere, err = archivefile.WroteHere(a.App, m.Digest); err != nil {
		return err
	}
	if !a.JSON {
		p := a.Printer(a.Stderr)
		if archivefile.Skipped(p, u.Skipped); p.Err == nil {
			archivefile.WriteInstructions(a.App, p, &u)
		}
		if p.Err != nil {
			return p.Err
		}
	}
	return a.PrintAndRun(ctx, func() {}, cli.ResumeResult{Dir: res.Dir, Session: res.Session, Command: res.Command}, res, false)
}
