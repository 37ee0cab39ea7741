package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/proc"
)

// leaseTime is the default of ACP.LeaseTime.
const leaseTime = time.Minute

// releaseTime limits the release of a lease. If it fails, the lease expires.
const releaseTime = 5 * time.Second

// ownerKind is the kind of the owners of leases that runners hold.
const ownerKind = "runner"

// lease is the exclusive right to a thread. It is held from before the files are written until the turn is recorded, so that
// the files are those of the head.
type lease struct {
	leaser segno.Leaser
	held   segno.Lease
	time   time.Duration
}

// acquire takes the lease on a thread, which need not exist yet. It also takes the lease of a process on this machine that
// has ended.
func acquire(ctx context.Context, store segno.Store, thread segno.ThreadID, d time.Duration) (*lease, error) {
	leaser, ok := store.(segno.Leaser)
	if !ok {
		return nil, segno.Errorf(segno.KindInvalid, "run agent", string(thread), "the store has no leases")
	}
	l := &lease{leaser: leaser, time: d, held: segno.Lease{Thread: thread, Owner: proc.NewOwner(ownerKind, segno.NewID())}}
	err := l.extend(ctx)
	kind := segno.KindOf(err)
	if kind != segno.KindBusy && kind != segno.KindInvalid {
		return l, err
	}
	now, nowErr := leaser.LeaseOf(ctx, thread)
	if nowErr != nil {
		return nil, nowErr
	}
	if kind == segno.KindInvalid { // another worker may have the right clock
		return nil, segno.Errorf(segno.KindIO, "run agent", string(thread), "the clock of this machine is behind that of the store: %w", err).
			WithHint("set the clock of this machine")
	}
	if pid, start, _, ok := proc.ParseOwner(ownerKind, now.Owner); ok && !proc.Alive(pid, start) {
		if err := leaser.Release(ctx, now); err != nil && segno.KindOf(err) != segno.KindFenced {
			return nil, err
		}
		err = l.extend(ctx)
	}
	if segno.KindOf(err) == segno.KindBusy && err != nil {
		return nil, segno.NewError(segno.KindConflict, "run agent", string(thread), fmt.Errorf("%w: %w", agent.ErrRunning, err)).
			WithHint("wait until it ends")
	}
	return l, err
}

func (l *lease) extend(ctx context.Context) error {
	want := l.held
	want.Expires = time.Now().Add(l.time)
	got, err := l.leaser.Acquire(ctx, want)
	if err == nil {
		l.held = got
	}
	return err
}

// renew renews the lease until stop is called. The returned context ends if another run took the lease.
func (l *lease) renew(ctx context.Context) (leased context.Context, stop func()) {
	leased, cancel := context.WithCancelCause(ctx)
	renewals, end := context.WithCancel(context.WithoutCancel(ctx)) // a cancelled turn is still recorded under the lease
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(l.time / 3)
		defer tick.Stop()
		for {
			select {
			case <-renewals.Done():
				return
			case <-tick.C:
			}
			epoch := l.held.Epoch
			err := l.extend(renewals)
			kind := segno.KindOf(err)
			// A busy store may be too busy to answer; the lease is still valid then.
			if err == nil && l.held.Epoch != epoch || err != nil && (kind == segno.KindFenced || kind == segno.KindBusy && l.isLost(renewals)) {
				cancel(segno.Errorf(segno.KindFenced, "run agent", string(l.held.Thread), "another run took over the thread"))
				return
			}
		}
	}()
	return leased, func() {
		end()
		<-ended
		cancel(nil)
	}
}

// isLost reports whether another owner has the lease now.
func (l *lease) isLost(ctx context.Context) bool {
	now, err := l.leaser.LeaseOf(ctx, l.held.Thread)
	return err == nil && now.Owner != "" && now.Owner != l.held.Owner
}

func (l *lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	err := l.leaser.Release(ctx, l.held)
	if segno.KindOf(err) == segno.KindFenced || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
