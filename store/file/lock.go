package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// lockWait is how long a call waits for another process's lock: a writer holds it for an fsync or
// two, an erasure for longer.
const lockWait = 30 * time.Second

// lock takes the store's lock, first among this process's goroutines, then among processes. The
// returned unlock is never nil. flock(2) cannot wait and be cancelled, so lock tries again and again.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.writer <- struct{}{}:
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
	unlock = func() { <-s.writer }
	f, err := s.fs.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unlock, err
	}
	unlock = func() { f.Close(); <-s.writer }
	for deadline := time.Now().Add(s.wait); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return unlock, err
		}
		if time.Now().After(deadline) {
			return unlock, segno.Errorf(segno.KindBusy, "lock store", s.dir, "another process keeps it locked").
				WithHint("try again when the other process is done")
		}
		select {
		case <-ctx.Done():
			return unlock, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// isReadOnly reports whether err is that of a disk or a directory on which this process cannot write.
func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)
}
