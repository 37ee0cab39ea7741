package claude

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// installer writes the files of a session: the sidecars first, the transcript
// last and atomically. It never replaces a file.
type installer struct {
	c       *Transcripts
	op      string
	path    string // of the new transcript
	out     *sessionfile.Output
	created []string // files and directories, to be removed if the session does not appear
}

// content is the session that an installer writes.
type content interface {
	// writeTranscript writes the transcript to the installer's out.
	writeTranscript(ctx context.Context) error
	sidecars(ctx context.Context) ([]sidecar, error)
	openSidecar(ctx context.Context, s sidecar) (io.ReadCloser, error)
}

// install writes a session. The transcript has a temporary name that no agent reads until
// all sidecars are durable.
func (k *installer) install(ctx context.Context, session segno.SessionID, from content) (err error) {
	defer k.cleanup()
	if err := k.mkdir(filepath.Dir(k.path)); err != nil {
		return err
	}
	var list []sidecar
	if k.out, err = sessionfile.CreateOutput(k.c.fs, k.path); err == nil {
		err = from.writeTranscript(ctx)
	}
	if err == nil {
		err = k.out.Sync()
	}
	if err == nil {
		list, err = from.sidecars(ctx)
	}
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, s := range list {
		name := k.c.sidecarFile(session, k.path, s.path)
		dirs[filepath.Dir(name)] = true
		in, err := from.openSidecar(ctx, s)
		if err != nil {
			return err
		}
		err = k.writeSidecar(name, in)
		in.Close()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := k.c.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return k.publish()
}

func (k *installer) writeSidecar(name string, in io.Reader) error {
	if err := k.mkdir(filepath.Dir(name)); err != nil {
		return err
	}
	out, err := sessionfile.CreateOutput(k.c.fs, name)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if err != nil {
		return err
	}
	_, before := os.Lstat(name)
	err = out.Publish()
	if _, after := os.Lstat(name); before != nil && after == nil {
		k.created = append(k.created, name)
	}
	return k.conflict(name, err)
}

// publish gives the transcript its final name. The agent finds the session from then on.
func (k *installer) publish() error {
	err := k.out.Publish()
	if _, statErr := os.Lstat(k.path); statErr == nil && !errors.Is(err, fs.ErrExist) {
		k.created = nil // a session that appeared keeps its sidecars, even after an error
	}
	if err != nil {
		return k.conflict(k.path, err)
	}
	return k.c.fs.SyncDir(filepath.Dir(k.path))
}

// conflict turns [fs.ErrExist] into a [segno.KindConflict].
func (k *installer) conflict(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return sessionfile.ExistsError(k.op, path)
	}
	return err
}

// mkdir creates a directory and its missing parents.
func (k *installer) mkdir(dir string) error {
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := k.mkdir(parent); err != nil {
			return err
		}
	}
	if err := k.c.fs.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	k.created = append(k.created, dir)
	return k.c.fs.SyncDir(filepath.Dir(dir))
}

// cleanup removes the files of a session that did not appear.
func (k *installer) cleanup() {
	if k.out != nil {
		k.out.Close()
	}
	for _, name := range slices.Backward(k.created) {
		_ = k.c.fs.Remove(name) // a directory that has other files remains
	}
}

// Relocate copies a session, under its own id, to where the agent looks for the
// sessions of dir. The copy ends with the last whole line. The original remains. If
// the session is there already with the same bytes, Relocate accepts it; if it has other bytes,
// the error is [segno.KindConflict]. The error is [segno.KindBusy] if another process writes to
// the session meanwhile.
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	const op = "relocate session"
	src, err := c.resolve(ctx, op, src)
	if err != nil {
		return segno.Source{}, err
	}
	to := segno.Source{Session: src.Session, Dir: dir}
	if to.Path, err = c.path(src.Session, dir); err != nil {
		return segno.Source{}, segno.NewError(segno.KindInvalid, op, dir, err)
	}
	if to.Path == src.Path {
		_, err := os.Stat(src.Path)
		return to, sessionfile.IOError(op, src.Path, err)
	}
	k := &relocation{installer{c: c, op: op, path: to.Path}, src}
	if err := k.install(ctx, src.Session, k); err != nil {
		return segno.Source{}, sessionfile.IOError(op, src.Path, err)
	}
	return to, nil
}

// relocation is an unchanged copy of src.
type relocation struct {
	installer
	src segno.Source
}

func (k *relocation) writeTranscript(ctx context.Context) error {
	in, err := vfs.OpenRegular(k.src.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	before, err := in.Stat()
	if err != nil {
		return err
	}
	l := sessionfile.NewLineReader(in, 0)
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := at.CheckWhole(k.op, k.src.Path); err != nil {
			return err
		}
		if _, err := k.out.Write(at.Bytes); err != nil {
			return err
		}
	}
	if _, err := l.End(); err != nil {
		return err
	}
	return sessionfile.CheckUnchanged(k.op, k.src.Path, before)
}

// sidecars returns the sidecars beside the transcript. The agent finds the others by the
// session's id alone.
func (k *relocation) sidecars(context.Context) ([]sidecar, error) {
	list, _, err := k.c.listSidecars(k.src.Session, k.src.Path)
	return slices.DeleteFunc(list, func(s sidecar) bool { return !strings.HasPrefix(s.path, "session/") }), err
}

func (k *relocation) openSidecar(_ context.Context, s sidecar) (io.ReadCloser, error) {
	return vfs.OpenRegular(k.c.sidecarFile(k.src.Session, k.src.Path, s.path))
}

// Prefer makes a session the newest of its project, so that the agent's "continue the
// newest session" finds it. It does not change the session's bytes.
func (c *Transcripts) Prefer(ctx context.Context, src segno.Source) error {
	const op = "prefer session"
	src, err := c.resolve(ctx, op, src)
	if err != nil {
		return err
	}
	now := c.now()
	return sessionfile.IOError(op, src.Path, c.fs.Chtimes(src.Path, now, now))
}
