package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// forkPrefix begins the name of a copy beside its target until the copy is complete. 26 letters
// and digits follow it.
const forkPrefix = ".segno-fork-"

// createTemp makes the directory for the copy. Before that, it writes the directory's path to
// the note, so that the next command can remove the copy of a killed process.
func (f *fork) createTemp() (err error) {
	fsys := f.from.options.FS
	if f.note != "" {
		if err := vfs.MkdirAll(fsys, filepath.Dir(f.note)); err != nil {
			return err
		}
		if err := vfs.Replace(fsys, f.note, []byte(f.temp), 0o600); err != nil {
			return err
		}
	}
	if err := f.parent.Mkdir(f.name, 0o700); err != nil {
		return err
	}
	top, err := enter(f.parent, f.name, f.name)
	if err != nil {
		return err
	}
	f.to = &treeWriter{top: top}
	f.copied, err = openWritten(top)
	return err
}

// cleanup closes the directory, removes it if the fork failed, and removes the note.
func (f *fork) cleanup(failed bool) (err error) {
	if f.copied != nil {
		f.copied.close()
	}
	if f.to != nil {
		f.to.close()
	}
	if failed {
		err = removeAll(f.parent, f.name)
	}
	if f.note != "" && err == nil {
		if err = f.from.options.FS.Remove(f.note); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// rename gives the copy its final name.
func (f *fork) rename() error {
	target := filepath.Base(f.target)
	if err := f.parent.Rename(f.name, target); err != nil {
		return err
	}
	f.name = target // cleanup then removes it if the sync fails
	return f.parent.SyncDir(".")
}

// RemoveAbandonedFork removes the incomplete copy that a killed [Dir.Fork] left, and
// the note with its path: see Options.ForkNote. It does nothing if there is no note.
// The caller must hold the workspace's lock, so that no Fork is running. RemoveAbandonedFork
// removes the path in a note only if that is a directory with the name of an incomplete copy.
func RemoveAbandonedFork(_ context.Context, fsys vfs.FS, note string) error {
	text, err := readStateFile(note, maxGitText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("read note of a fork", note, err)
	}
	if temp := string(text); isForkTemp(temp) {
		if err := removeCopy(fsys, temp); err != nil {
			return segno.NewError(segno.KindIO, "remove incomplete fork", temp, err).WithHint("remove that directory yourself")
		}
	}
	if err := fsys.Remove(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pathError("remove note of a fork", note, err)
	}
	return nil
}

// removeCopy removes a directory, unless it is a symlink.
func removeCopy(fsys vfs.FS, temp string) error {
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

// isForkTemp reports whether path is a possible path of an incomplete copy.
func isForkTemp(path string) bool { return hasRandomName(path, forkPrefix) }

// hasRandomName reports whether path is absolute and its last name is prefix and 26 random characters.
func hasRandomName(path, prefix string) bool {
	random, ok := strings.CutPrefix(filepath.Base(path), prefix)
	return ok && isRandom(random) && filepath.IsAbs(path) && filepath.Clean(path) == path
}

func forkTempName() string { return forkPrefix + rand.Text() }
