package pack

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// placeSession adds a loaded session to the home of its agent. The session first gets a temporary
// home, in which package transcript reads it as if the agent had written it. If package transcript
// cannot read it, no file of the session reaches the agent.
func (u *unpacker) placeSession(ctx context.Context, info archive.AgentInfo, a *UnpackedAgent) error {
	be, id := backendOf(info.Backend), segno.SessionID(info.SessionID)
	if be == nil || be.Format != info.SessionFormat || !isSession(id) {
		u.skip("agents/"+info.Name+"/"+string(archive.Session), SkippedUnsupported)
		return nil
	}
	home := ""
	switch {
	case u.into.HomeOf != nil:
		home = u.into.HomeOf(info.Name, info.Backend)
	case u.into.Home != nil:
		home = u.into.Home(info.Backend)
	}
	if home == "" {
		u.skip("agents/"+info.Name+"/"+string(archive.Session), SkippedHome)
		return nil
	}
	if !filepath.IsAbs(home) {
		return segno.Errorf(segno.KindInvalid, "unpack session of "+info.Name, home, "the home of the agent is not an absolute path")
	}
	p := &placement{unpacker: u, agent: info.Name, be: be, home: home, id: id, dir: a.Dir, temp: filepath.Join(u.stage.path, "homes", info.Name)}
	src, err := p.place(ctx)
	if err != nil {
		return p.describe(info, err)
	}
	a.Session, a.Command = src.Session, be.open(home, u.made).Resume(src)
	return nil
}

func (u *unpacker) skip(path, why string) { u.out.Skipped = append(u.out.Skipped, omission(path, why)) }

// A placement adds one session to a home.
type placement struct {
	*unpacker
	agent string // the agent's name in the archive
	be    *backend
	home  string // home of the agent
	temp  string // the temporary home
	id    segno.SessionID
	dir   string // the directory of the workspace
}

// describe wraps err as an error about the session of an agent.
func (p *placement) describe(info archive.AgentInfo, err error) error {
	kind := segno.KindOf(err)
	switch kind {
	case segno.KindInternal:
		kind = segno.KindIO
	case segno.KindNotFound, segno.KindInvalid:
		kind = segno.KindCorrupt
	}
	return segno.NewError(kind, "unpack session of "+info.Name, info.SessionID, err).WithHint("use --tier workspace to unpack only the files")
}

func (p *placement) place(ctx context.Context) (segno.Source, error) {
	if err := p.fillHome(); err != nil {
		return segno.Source{}, err
	}
	scratch := &scratchObjects{fsys: p.into.FS, dir: filepath.Join(p.stage.path, "objects", p.agent)}
	if err := p.mkdirAll(scratch.dir); err != nil {
		return segno.Source{}, err
	}
	temp := p.be.open(p.temp, p.into.FS)
	src, err := temp.Find(ctx, p.id)
	if err != nil {
		return segno.Source{}, err
	}
	// A capture stores positions of unknown turns. Earlier turns need no positions, so all turns
	// count as known.
	isKnown := func(string) bool { return true }
	got, err := temp.Capture(ctx, src, nil, scratch, isKnown)
	if err != nil {
		return segno.Source{}, err
	}
	for _, d := range got.Damage {
		if d.Line == 0 { // the diagnostic is about a file beside the transcript
			p.skip("agents/"+p.agent+"/"+string(archive.Session), d.Why)
		}
	}
	if err := p.lockHome(ctx); err != nil {
		return segno.Source{}, err
	}
	id := p.id
	switch files, err := p.be.sessionFiles(p.home, id); {
	case err != nil:
		return segno.Source{}, err
	case p.into.NewSession || len(files) > 0 && !p.isInPlace(files):
		id = segno.SessionID(uuid.NewString())
	case len(files) > 0: // an earlier Unpack into this directory added the session
		return segno.Source{Session: id, Dir: p.dir}, nil
	}
	return p.be.open(p.home, p.made).Cut(ctx, got.Position, segno.Target{Session: id, Dir: p.dir}, scratch)
}

// fillHome moves the files of the session from the stage to the temporary home.
func (p *placement) fillHome() error {
	from := filepath.Join(p.loaded(), "agents", p.agent, string(archive.Session))
	for _, e := range p.r.Manifest().Tree(p.agent, archive.Session) {
		file := filepath.Join(from, filepath.FromSlash(e.Path))
		if _, err := os.Lstat(file); err != nil {
			continue // package archive did not load the file, and lists it as skipped
		}
		if !matches(p.be.Files, p.id, e.Path) {
			p.skip("agents/"+p.agent+"/"+string(archive.Session)+"/"+e.Path, SkippedOther)
			continue
		}
		to := filepath.Join(p.temp, filepath.FromSlash(p.be.fromArchive(e.Path, neutralDir)))
		if err := p.mkdirAll(filepath.Dir(to)); err != nil {
			return err
		}
		if err := p.into.FS.Rename(file, to); err != nil {
			return err
		}
	}
	return nil
}

// lockHome makes this process the only one that unpacks into a home. Otherwise two processes could
// choose the same session id. The lock leaves no file behind. Some network file systems cannot lock
// a directory. A session is then added without the lock, which is safe because Cut never replaces a
// file.
func (p *placement) lockHome(ctx context.Context) error {
	if err := vfs.MkdirAllSynced(p.made, p.home); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(p.home)
	if err != nil {
		return err
	}
	if slices.Contains(p.homes, real) {
		return nil
	}
	f, err := os.Open(real)
	if err != nil {
		return err
	}
	p.locks, p.homes = append(p.locks, f), append(p.homes, real)
	if err := vfs.Lock(ctx, f, lockWait); errors.Is(err, vfs.ErrLocked) {
		return segno.NewError(segno.KindBusy, "lock", p.home, err).WithHint("try again when the other unpack is done")
	}
	return ctx.Err()
}

// isInPlace reports whether the agent's home already has exactly the archive's files of the
// session, at the paths for this working directory.
func (p *placement) isInPlace(files []string) bool {
	want, err := p.be.sessionFiles(p.temp, p.id)
	if err != nil || len(want) != len(files) {
		return false
	}
	for _, rel := range want {
		name := p.be.fromArchive(p.be.toArchive(rel, neutralDir), p.dir)
		if !slices.Contains(files, name) || !sameContent(filepath.Join(p.temp, rel), filepath.Join(p.home, name)) {
			return false
		}
	}
	return true
}

// sameContent reports whether two files have the same bytes.
func sameContent(a, b string) bool {
	x, errX := fileSum(a)
	y, errY := fileSum(b)
	return errX == nil && errY == nil && x == y
}

func fileSum(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}
