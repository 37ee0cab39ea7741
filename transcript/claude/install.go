package claude

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
)

// installer writes the files of a session: the sidecars first, the transcript
// last and atomically. It never replaces a file.
type installer struct {
	c       *Transcripts
	op      string
	path    string // of the new transcript
	out     *output
	created []string // files and directories, to be removed if the session does not appear
}

// begin creates the new transcript under a temporary name that no agent reads.
func (k *installer) begin() (err error) {
	if err := k.mkdir(filepath.Dir(k.path)); err != nil {
		return err
	}
	k.out, err = createOutput(k.c.fs, k.path)
	return err
}

// writeSidecars writes the sidecars of a session and makes their names durable.
func (k *installer) writeSidecars(ctx context.Context, session segno.SessionID, list []sidecar, open func(sidecar) (io.ReadCloser, error)) error {
	dirs := map[string]bool{}
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := k.c.sidecarFile(session, k.path, s.path)
		if err := k.mkdir(filepath.Dir(name)); err != nil {
			return err
		}
		dirs[filepath.Dir(name)] = true
		in, err := open(s)
		if err != nil {
			return err
		}
		err = k.writeSidecar(name, in)
		in.Close()
		if err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := k.c.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (k *installer) writeSidecar(name string, in io.Reader) error {
	out, err := createOutput(k.c.fs, name)
	if err != nil {
		return err
	}
	defer out.close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.sync(); err != nil {
		return err
	}
	_, before := os.Lstat(name)
	err = out.publish()
	if _, after := os.Lstat(name); before != nil && after == nil {
		k.created = append(k.created, name)
	}
	return k.conflict(name, err)
}

// publish makes the session appear.
func (k *installer) publish() error {
	err := k.out.publish()
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
		return segno.Errorf(segno.KindConflict, k.op, path, "the session exists already").WithHint("choose another session id")
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

// cleanup removes what was created for a session that did not appear.
func (k *installer) cleanup() {
	if k.out != nil {
		k.out.close()
	}
	for _, name := range slices.Backward(k.created) {
		_ = k.c.fs.Remove(name) // a directory that has other files remains
	}
}
