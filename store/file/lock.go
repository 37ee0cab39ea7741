package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// lockWait is the longest time that a call waits for another process's lock. A writer holds the
// lock for one or two fsyncs, an erasure for longer.
const lockWait = 30 * time.Second

// lock takes the store's lock, first among this process's goroutines, then among processes. unlock
// is never nil, even if there is an error.
func (s *disk) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.writer <- struct{}{}:
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
	f, err := s.fs.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() { <-s.writer }, err
	}
	if err = vfs.Lock(ctx, f, s.wait); errors.Is(err, vfs.ErrLocked) {
		err = segno.NewError(segno.KindBusy, "lock store", s.dir, err).WithHint("try again when the other process is done")
	}
	return func() { f.Close(); <-s.writer }, err
}

// isReadOnly reports whether err shows that this process cannot write to the disk or the directory.
func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
