package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// tempPrefix begins the names of temporary directories.
const tempPrefix = ".segno-pack-"

// A tempDir is a temporary directory for conversations that only this user can read. Its lock shows
// other processes that it is in use.
type tempDir struct {
	path string
	lock *os.File
}

// newTempDir makes a temporary directory in parent. It removes those that killed processes left
// there.
func newTempDir(ctx context.Context, fsys vfs.FS, parent string) (*tempDir, error) {
	vfs.RemoveAbandoned(ctx, parent, func(e fs.DirEntry) bool { return e.IsDir() && strings.HasPrefix(e.Name(), tempPrefix) })
	t := &tempDir{path: filepath.Join(parent, tempPrefix+segno.NewID())}
	if err := fsys.Mkdir(t.path, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.Open(t.path)
	if err != nil {
		return nil, errors.Join(err, t.remove())
	}
	t.lock = lock
	_ = vfs.Lock(ctx, lock, 0) // an unlocked directory is kept for at least an hour
	return t, nil
}

// remove removes the directory with its content.
func (t *tempDir) remove() error {
	err := os.RemoveAll(t.path)
	if t.lock != nil {
		err = errors.Join(err, t.lock.Close())
	}
	return err
}
