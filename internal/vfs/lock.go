package vfs

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error of [Lock] if another process holds the lock until wait is over.
var ErrLocked = errors.New("another process keeps it locked")

// lockPoll is the interval between attempts of Lock. It polls because a waiting flock(2) cannot be
// cancelled.
const lockPoll = time.Millisecond

// Lock takes the exclusive flock(2) of an open file, which lasts until the file is closed. It waits at most for wait.
// Two open files of the same process exclude each other, too.
func Lock(ctx context.Context, f interface{ Fd() uintptr }, wait time.Duration) error {
	return lock(ctx, f, unix.LOCK_EX, wait)
}

// LockShared is like Lock, but takes the shared flock(2), which excludes only the exclusive lock.
func LockShared(ctx context.Context, f interface{ Fd() uintptr }, wait time.Duration) error {
	return lock(ctx, f, unix.LOCK_SH, wait)
}

// Unlock releases the lock of a file, even if another process has inherited the file.
func Unlock(f interface{ Fd() uintptr }) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

func lock(ctx context.Context, f interface{ Fd() uintptr }, how int, wait time.Duration) error {
	for deadline := time.Now().Add(wait); ; {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if time.Now().After(deadline) {
			return ErrLocked
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}
