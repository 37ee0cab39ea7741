package transcript

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

// placing puts a session's files in place: the sidecars first, the transcript
// last and at once, and nothing over a file that is there.
type placing struct {
	c    *Claude
	op   string
	path string // of the new transcript
	out  *output
	made []string // files and directories, to be removed if nothing comes of it
}

// begin opens the new transcript under a name no agent reads.
func (k *placing) begin() (err error) {
	if err := k.mkdir(filepath.Dir(k.path)); err != nil {
		return err
	}
	k.out, err = create(k.c.fs, k.path)
	return err
}

// carry places the sidecars of a session.
func (k *placing) carry(ctx context.Context, session segno.SessionID, list []sidecar, open func(sidecar) (io.ReadCloser, error)) error {
	dirs := map[string]bool{}
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := k.c.file(session, k.path, s.path)
		if err := k.mkdir(filepath.Dir(name)); err != nil {
			return err
		}
		dirs[filepath.Dir(name)] = true
		if err := k.place(name, func() (io.ReadCloser, error) { return open(s) }); err != nil {
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

// place writes one sidecar.
func (k *placing) place(name string, open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := create(k.c.fs, name)
	if err != nil {
		return err
	}
	defer out.close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.settle(); err != nil {
		return err
	}
	_, before := os.Lstat(name)
	err = out.publish()
	if _, after := os.Lstat(name); before != nil && after == nil {
		k.made = append(k.made, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return exists(k.op, name)
	}
	return err
}

// publish lets the session appear.
func (k *placing) publish() error {
	err := k.out.publish()
	if errors.Is(err, fs.ErrExist) {
		return exists(k.op, k.path)
	}
	if _, there := os.Lstat(k.path); there == nil {
		k.made = nil // a session that is there keeps its sidecars, whatever comes now
	}
	if err != nil {
		return err
	}
	return k.c.fs.SyncDir(filepath.Dir(k.path))
}

// mkdir makes a directory and what is missing above it.
func (k *placing) mkdir(dir string) error {
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := k.mkdir(parent); err != nil {
			return err
		}
	}
	if err := k.c.fs.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	k.made = append(k.made, dir)
	return k.c.fs.SyncDir(filepath.Dir(dir))
}

// clean removes what was made for a session that did not come to be.
func (k *placing) clean() {
	if k.out != nil {
		k.out.close()
	}
	for _, name := range slices.Backward(k.made) {
		_ = k.c.fs.Remove(name) // a directory with anything else in it stays
	}
}
