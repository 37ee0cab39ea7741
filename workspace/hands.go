package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/dalsegno/segno/internal/vfs"
)

// hands reach into the tree to write. Each directory on the way is opened from the
// one above and is a directory there, not a symlink to one; a name is only ever
// used inside the directory that holds it.
type hands struct {
	top  vfs.Root
	open []held // the directories on the way to the last one asked for
}

type held struct {
	name string
	dir  vfs.Root // nil for one far above, which was closed
}

// maxHeld is how many directories stay open: enough for the way back from almost
// any depth, few enough for the limit on open files.
const maxHeld = 200

// open returns hands on the tree.
func (d *Dir) open() (*hands, error) {
	top, err := d.config.FS.OpenRoot(d.root)
	if err != nil {
		return nil, pathError("open workspace", d.root, err)
	}
	return &hands{top: top}, nil
}

func (h *hands) close() {
	h.letGo(0)
	h.top.Close()
}

func (h *hands) letGo(from int) {
	for _, at := range h.open[from:] {
		if at.dir != nil {
			at.dir.Close()
		}
	}
	h.open = h.open[:from]
}

// notDirError says that on the way to a path something is no directory.
type notDirError struct {
	path string
	what string
}

func (e *notDirError) Error() string { return fmt.Sprintf("%s is %s", e.path, e.what) }

// dir opens the directory at path, "" being the root. The error is a notDirError
// or has [fs.ErrNotExist] if there is none. The result lasts until the next call.
func (h *hands) dir(path string) (vfs.Root, error) {
	if path == "" {
		return h.top, nil
	}
	names := strings.Split(path, "/")
	shared := 0
	for shared < len(h.open) && shared < len(names) && h.open[shared].name == names[shared] {
		shared++
	}
	h.letGo(shared)
	at := h.top
	if shared > 0 && h.open[shared-1].dir == nil {
		shared = 0 // far up: start at the top again
		h.letGo(0)
	} else if shared > 0 {
		at = h.open[shared-1].dir
	}
	for i := shared; i < len(names); i++ {
		next, err := enter(at, names[i])
		if err != nil {
			var not *notDirError
			if errors.As(err, &not) {
				not.path = strings.Join(names[:i+1], "/")
			}
			return nil, err
		}
		h.open = append(h.open, held{names[i], next})
		if far := len(h.open) - 1 - maxHeld; far >= 0 && h.open[far].dir != nil {
			h.open[far].dir.Close()
			h.open[far].dir = nil
		}
		at = next
	}
	return at, nil
}

// enter opens a directory inside another. That the two looks see one directory
// proves that no symlink was followed.
func enter(at vfs.Root, name string) (vfs.Root, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, &notDirError{what: describe(before)}
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	self, err := next.Lstat(".")
	if err == nil && !os.SameFile(before, self) {
		err = &notDirError{what: "moving"}
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

func describe(fi fs.FileInfo) string {
	switch fi.Mode().Type() {
	case fs.ModeSymlink:
		return "a symlink"
	case 0:
		return "a file"
	}
	return "not a directory"
}

// parent opens the directory that holds path, and returns path's name in it.
func (h *hands) parent(p string) (vfs.Root, string, error) {
	dir, name := path.Split(p)
	at, err := h.dir(strings.TrimSuffix(dir, "/"))
	return at, name, err
}

// stat looks at path; ok is false if there is nothing, or no directory to hold it.
func (h *hands) stat(p string) (st stat, ok bool, err error) {
	at, name, err := h.parent(p)
	if err == nil {
		var fi fs.FileInfo
		if fi, err = at.Lstat(name); err == nil {
			return statOf(fi), true, nil
		}
	}
	if isAbsent(err) {
		return stat{}, false, nil
	}
	return stat{}, false, err
}

// discard removes a temporary file, if it is still there.
func (h *hands) discard(p string) error {
	at, name, err := h.parent(p)
	if err == nil {
		err = at.Remove(name)
	}
	if isAbsent(err) {
		return nil
	}
	return err
}

// isAbsent reports whether an error means that nothing stands at a path.
func isAbsent(err error) bool {
	var not *notDirError
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &not) || errors.Is(err, syscall.ENOTDIR)
}

// isDenied reports whether an error is about one path, which then stays as it is,
// and no reason to stop.
func isDenied(err error) bool {
	var not *notDirError
	return errors.Is(err, errMoved) || errors.As(err, &not) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EBUSY)
}

// nearby lets the rules look around through hands.
type nearby struct{ dir vfs.Root }

func (n nearby) exists(name string) bool {
	_, err := n.dir.Lstat(name)
	return err == nil
}

func (n nearby) begins(name, prefix string) bool {
	fi, err := n.dir.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	f, err := n.dir.OpenFile(name, readFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	buf := make([]byte, len(prefix))
	read, _ := f.ReadAt(buf, 0)
	return string(buf[:read]) == prefix
}
