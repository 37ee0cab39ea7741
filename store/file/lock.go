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
	"github.com/dalsegno/segno/internal/vfs"
)

// lockWait is how long a call waits for another process's lock: a writer holds it for an fsync or
// two, an erasure for longer.
const lockWait = 30 * time.Second

// lockRetry is how often flock(2) is tried again, because it cannot wait and be cancelled.
const lockRetry = time.Millisecond

// lock takes the store's lock, first among this process's goroutines, then among processes.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := s.fs.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		if err = s.flock(ctx, f); err != nil {
			f.Close()
		}
	}
	if err != nil {
		<-s.writer
		return nil, err
	}
	return func() { f.Close(); <-s.writer }, nil
}

// lockToRead is lock, except that a store on which nothing can be written needs no lock.
func (s *Store) lockToRead(ctx context.Context) (unlock func(), err error) {
	unlock, err = s.lock(ctx)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return func() {}, nil
	}
	return unlock, err
}

func (s *Store) flock(ctx context.Context, f vfs.File) error {
	for deadline := time.Now().Add(s.wait); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if time.Now().After(deadline) {
			return segno.Errorf(segno.KindBusy, "lock store", s.dir, "another process keeps it locked").
				WithHint("try again when the other process is done")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockRetry):
		}
	}
}
