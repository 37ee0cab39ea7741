package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/dalsegno/segno/internal/vfs"
)

// treeWriter opens the directories of a tree for writing. It opens each one from the directory
// above and checks that it is not a symlink. It uses a name only inside the directory that
// contains the name.
type treeWriter struct {
	top vfs.Root
	way openPath[vfs.Root]
}

func (d *Dir) openWriter() (*treeWriter, error) {
	top, err := d.options.FS.OpenRoot(d.root)
	if err != nil {
		return nil, pathError("open workspace", d.root, err)
	}
	return &treeWriter{top: top}, nil
}

func (w *treeWriter) close() {
	w.closeDirs()
	w.top.Close()
}

// closeDirs closes the directories below the root.
func (w *treeWriter) closeDirs() { w.way.closeFrom(0, closeRoot) }

func closeRoot(dir vfs.Root) { dir.Close() }

// notDirError is the text of the error for a path with a component that is not a directory.
type notDirError string

func (e notDirError) Error() string { return string(e) }

// dir opens the directory at path; "" is the root. If there is none, the error is a notDirError
// or [fs.ErrNotExist]. The result is valid until the next call of dir.
func (w *treeWriter) dir(path string) (vfs.Root, error) {
	return w.way.open(w.top, path, enter, closeRoot)
}

// enter opens the directory called name, at path in the tree. It compares the stat of the
// directory before and after: if both are the same, no symlink was followed.
func enter(at vfs.Root, name, path string) (vfs.Root, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	switch before.Mode().Type() {
	case fs.ModeDir:
	case fs.ModeSymlink:
		return nil, notDirError(path + " is a symlink")
	case 0:
		return nil, notDirError(path + " is a file")
	default:
		return nil, notDirError(path + " is not a directory")
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	self, err := next.Lstat(".")
	if err == nil && !os.SameFile(before, self) {
		err = notDirError(path + " was replaced meanwhile")
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// in calls do with the directory that contains the path p, and the last name of p.
func (w *treeWriter) in(p string, do func(at vfs.Root, name string) error) error {
	at, err := w.dir(dirOf(p))
	if err != nil {
		return err
	}
	return do(at, path.Base(p))
}

// removeTemp removes a temporary file, if it still exists.
func (w *treeWriter) removeTemp(p string) error {
	if err := w.in(p, removeFromReadOnly); !isAbsent(err) {
		return err
	}
	return nil
}

// removeFromReadOnly removes a name, even from a directory to which its owner may not write. An
// interrupted restore may leave such a directory with a temporary file, which the next restore
// removes.
func removeFromReadOnly(at vfs.Root, name string) error {
	err := at.Remove(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	fi, statErr := at.Lstat(".")
	if statErr != nil {
		return err
	}
	st := statOf(fi)
	mode := st.perm()
	if mode&0o300 == 0o300 || chmodDir(at, mode|ownerBits) != nil {
		return err
	}
	return errors.Join(at.Remove(name), chmodDir(at, mode))
}

// replaceFile replaces a file durably.
func (w *treeWriter) replaceFile(p string, data []byte, perm fs.FileMode) error {
	return w.in(p, func(at vfs.Root, name string) error { return vfs.Replace(at, name, data, perm) })
}

// removeAll removes a name in a directory, and everything below it. It enters only directories,
// never the target of a symlink.
func removeAll(at vfs.Root, name string) error {
	err := at.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if fi, statErr := at.Lstat(name); statErr != nil || !fi.IsDir() {
		return err
	}
	if err := empty(at, name); err != nil {
		return err
	}
	return at.Remove(name)
}

// empty removes everything in a directory.
func empty(at vfs.Root, name string) error {
	dir, err := enter(at, name, name)
	if errors.Is(err, fs.ErrPermission) {
		if err = at.Chmod(name, 0o700); err == nil {
			dir, err = enter(at, name, name)
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
	handle, err := openWritten(dir)
	if err != nil {
		return err
	}
	names, err := handle.names("")
	handle.close()
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

// chmodDir sets the mode of an open directory.
func chmodDir(at vfs.Root, mode uint32) error {
	f, err := at.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(fileMode(mode))
}

// isDenied reports whether an error concerns only one path. That path then stays unchanged, and
// the others are still written.
func isDenied(err error) bool {
	var not notDirError
	return errors.Is(err, errMoved) || errors.As(err, &not) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EBUSY)
}
