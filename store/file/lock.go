package file

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// lockWait is how long another process's lock is waited for at most: what holds
// one takes as long as an fsync.
const lockWait = 30 * time.Second

// flock(2) cannot wait and be cancelled at once, so a held lock is tried again,
// soon at first.
const (
	firstTry = 100 * time.Microsecond
	lastTry  = 5 * time.Millisecond
)

// lock locks an open log until it is closed.
func (s *Store) lock(ctx context.Context, op string, f vfs.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	deadline := time.Now().Add(s.wait)
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fail(op, f.Name(), err)
		}
		if time.Now().After(deadline) {
			return segno.Errorf(segno.KindBusy, op, f.Name(), "another process keeps it locked").WithHint("try again when the other process is done")
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fail(op, f.Name(), ctx.Err())
		case <-timer.C:
		}
	}
}

// take takes a turn, a channel with room for one.
func take(ctx context.Context, op string, turn chan struct{}) (done func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fail(op, "", ctx.Err())
	}
}
