package sealing

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

// Lock is a lock on the form of a store: sealed or not. Each process that has the store open shares the lock. A
// conversion holds it alone, so that no process works on files that the conversion replaces. The kernel releases the
// lock of a process that ends.
type Lock struct{ file *os.File }

// Release releases the lock.
func (l Lock) Release() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Share takes the lock together with other processes that use the store. It waits for a conversion for at most wait,
// and returns [segno.KindBusy] after that. A process that may not write the directory needs no lock if there is no
// file to lock, because then no process has converted the store.
func Share(ctx context.Context, fsys vfs.FS, dir string, wait time.Duration) (Lock, error) {
	f, err := openLock(fsys, dir)
	if err != nil || f == nil {
		return Lock{}, err
	}
	if err := vfs.LockShared(ctx, f, wait); err != nil {
		f.Close()
		return Lock{}, busy(err, dir, "another process converts the store", "try again when it is done")
	}
	return Lock{f}, nil
}

// Exclude takes the lock alone. It returns [segno.KindBusy] if another process has the store open for longer than wait.
func Exclude(ctx context.Context, fsys vfs.FS, dir string, wait time.Duration) (Lock, error) {
	f, err := openLock(fsys, dir)
	if err != nil {
		return Lock{}, err
	}
	if f == nil {
		return Lock{}, segno.Errorf(segno.KindRefused, op, dir, "the store is read-only").WithHint("make it writable, or use another store")
	}
	if err := vfs.Lock(ctx, f, wait); err != nil {
		f.Close()
		return Lock{}, busy(err, dir, "another process has the store open",
			"end editors with 'segno acp', chats and other segno commands, then try again")
	}
	return Lock{f}, nil
}

func busy(err error, dir, why, hint string) error {
	if errors.Is(err, vfs.ErrLocked) {
		return segno.Errorf(segno.KindBusy, op, dir, "%s", why).WithHint(hint)
	}
	return segno.Errorf(segno.KindBusy, op, dir, "%s: %w", why, err).WithHint(hint)
}

// openLock opens the file, and creates it if it is missing. It returns nil if it is missing and cannot be created.
func openLock(fsys vfs.FS, dir string) (*os.File, error) {
	name := filepath.Join(dir, "locks", "store")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = vfs.MkdirAll(fsys, filepath.Dir(name)); err == nil {
			f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		f, err = os.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, dir, err)
	}
	return f, nil
}
