package sealing

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Lock is a lock on the form of a store: sealed or not. Each process that has the store open holds a shared lock. A
// conversion holds the exclusive lock, so that no process works on files that the conversion replaces. The kernel
// releases the lock when a process ends. The lock is on the directory and needs no file, so it also works on a full
// disk or a read-only medium.
type Lock struct{ dir *os.File }

// Release releases the lock. A second call does nothing.
func (l Lock) Release() error {
	if err := l.dir.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Share takes the shared lock. It waits for a conversion for at most wait, and returns [segno.KindBusy] after that.
func Share(ctx context.Context, dir string, wait time.Duration) (Lock, error) {
	return take(dir, func(f *os.File) error {
		return busy(vfs.LockShared(ctx, f, wait), dir, "another process seals the store or removes its seal", "try again when it is done")
	})
}

// Exclude takes the exclusive lock. It returns [segno.KindBusy] if another process has the store open for longer than
// wait.
func Exclude(ctx context.Context, dir string, wait time.Duration) (Lock, error) {
	return take(dir, func(f *os.File) error {
		return busy(vfs.Lock(ctx, f, wait), dir, "another process has the store open",
			"end editors with 'segno acp', chats and other segno commands, then try again")
	})
}

func take(dir string, lock func(*os.File) error) (Lock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return Lock{}, segno.NewError(segno.KindIO, op, dir, err)
	}
	if err := lock(f); err != nil {
		return Lock{}, errors.Join(err, f.Close())
	}
	return Lock{f}, nil
}

func busy(err error, dir, why, hint string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, vfs.ErrLocked):
		return segno.Errorf(segno.KindBusy, op, dir, "%s", why).WithHint(hint)
	}
	return segno.Errorf(segno.KindBusy, op, dir, "%s: %w", why, err).WithHint(hint)
}
