package pack

import (
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// lockWait is how long Unpack waits for another Unpack into the same home. Placing a session takes
// a few seconds at most.
const lockWait = time.Minute

// A recorder is a [vfs.FS] that records the files and directories that are created through it.
type recorder struct {
	vfs.FS
	created []string // in order
}

// rollback removes the files that the recorder created. A directory that has other files remains. It ignores errors,
// because the caller reports an earlier error.
func (r *recorder) rollback() {
	for _, name := range slices.Backward(r.created) {
		_ = r.FS.Remove(name)
	}
	r.created = nil
}

func (r *recorder) record(name string, err error) error {
	if err == nil {
		r.created = append(r.created, name)
	}
	return err
}

func (r *recorder) Mkdir(name string, perm fs.FileMode) error {
	return r.record(name, r.FS.Mkdir(name, perm))
}

func (r *recorder) Link(oldname, newname string) error {
	return r.record(newname, r.FS.Link(oldname, newname))
}

func (r *recorder) Symlink(target, name string) error {
	return r.record(name, r.FS.Symlink(target, name))
}

func (r *recorder) Rename(oldname, newname string) error {
	return r.record(newname, r.FS.Rename(oldname, newname))
}

func (r *recorder) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := r.FS.OpenFile(name, flag, perm)
	if flag&os.O_EXCL != 0 {
		_ = r.record(name, err)
	}
	return f, err
}
