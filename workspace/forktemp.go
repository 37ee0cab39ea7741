package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// forkPrefix begins the name that a copy has beside its target until it is complete.
// 26 letters and digits follow.
const forkPrefix = ".segno-fork-"

// begin makes the directory to copy into. Its path is in the note before it exists, so
// that the next command removes what a killed process leaves.
func (f *fork) begin() (err error) {
	config := &f.from.config
	if config.ForkNote != "" {
		if err := vfs.MkdirAll(config.FS, filepath.Dir(config.ForkNote)); err != nil {
			return err
		}
		if err := vfs.Replace(config.FS, config.ForkNote, []byte(f.temp), 0o600); err != nil {
			return err
		}
	}
	if err := f.parent.Mkdir(f.name, 0o700); err != nil {
		return err
	}
	top, err := enter(f.parent, f.name)
	if err != nil {
		return err
	}
	f.to = &hands{top: top}
	return nil
}

// end closes the directory, removes it if the fork failed, and forgets the note.
func (f *fork) end(failed bool) (err error) {
	if f.to != nil {
		f.to.close()
	}
	if failed {
		err = removeAll(f.parent, f.name)
	}
	if note := f.from.config.ForkNote; note != "" && err == nil {
		if err = f.from.config.FS.Remove(note); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// complete gives the copy its name.
func (f *fork) complete() error {
	target := filepath.Base(f.target)
	if err := f.parent.Rename(f.name, target); err != nil {
		return err
	}
	f.name = target // what is to be removed should this fail
	return f.parent.SyncDir(".")
}

// RemoveAbandonedFork removes the incomplete copy that a killed [Dir.Fork] left, and
// the note that names it: see Config.ForkNote. It does nothing if there is no note.
// The caller holds the workspace's lock, so that no Fork is under way. It removes the
// path that a note names only if that is a directory with the name of an incomplete copy.
func RemoveAbandonedFork(_ context.Context, fsys vfs.FS, note string) error {
	text, err := readOwn(note, maxGitText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("read note of a fork", note, err)
	}
	if temp := string(text); isForkTemp(temp) {
		if err := removeForkTemp(fsys, temp); err != nil {
			return segno.NewError(segno.KindIO, "remove incomplete fork", temp, err).WithHint("remove that directory by hand")
		}
	}
	if err := fsys.Remove(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pathError("remove note of a fork", note, err)
	}
	return nil
}

func removeForkTemp(fsys vfs.FS, temp string) error {
	parent, err := fsys.OpenRoot(filepath.Dir(temp))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	if fi, err := parent.Lstat(filepath.Base(temp)); err != nil || !fi.IsDir() {
		return nil
	}
	return removeAll(parent, filepath.Base(temp))
}

// isForkTemp reports whether path is where a fork could be under way.
func isForkTemp(path string) bool {
	random, ok := strings.CutPrefix(filepath.Base(path), forkPrefix)
	return ok && len(random) == 26 && isRandom(random) && filepath.IsAbs(path) && filepath.Clean(path) == path
}

func forkTempName() string { return forkPrefix + rand.Text() }

// removeAll removes what is at a name in a directory, and everything below it. It
// enters directories only, never what a symlink leads to.
func removeAll(at vfs.Root, name string) error {
	err := at.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if fi, stat := at.Lstat(name); stat != nil || !fi.IsDir() {
		return err
	}
	if err := empty(at, name); err != nil {
		return err
	}
	return at.Remove(name)
}

// empty removes everything in a directory.
func empty(at vfs.Root, name string) error {
	dir, err := enter(at, name)
	if errors.Is(err, fs.ErrPermission) {
		if err = at.Chmod(name, 0o700); err == nil {
			dir, err = enter(at, name)
		}
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if os.Geteuid() != 0 {
		if err := chmodDir(dir, 0o700); err != nil {
			return err
		}
	}
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeAll(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the names in a directory.
func namesIn(dir vfs.Root) ([]string, error) {
	f, err := dir.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return listNames(f)
}
