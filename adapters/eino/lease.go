package segnoeino

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

// lease is a run's exclusive right to a thread. Without it, a node that another process is running would look
// like a node whose result was lost. It is nil for a store without leases.
type lease struct {
	leaser segno.Leaser
	held   segno.Lease
	cancel context.CancelFunc
	done   chan struct{}
}

// leaseTime is how long the lease of a process on another machine lasts after its last renewal. The lease of
// a process of this machine ends with the process.
const leaseTime = 30 * time.Second

// ownerKind is the kind of the owners of these leases.
const ownerKind = "eino"

// acquire acquires the lease of a thread, and renews it until release.
func acquire(ctx context.Context, store segno.Store, thread segno.ThreadID) (*lease, error) {
	leaser, ok := store.(segno.Leaser)
	if !ok {
		return nil, nil
	}
	want := segno.Lease{Thread: thread, Owner: proc.NewOwner(ownerKind, segno.NewID()), Expires: time.Now().Add(leaseTime)}
	held, err := leaser.Acquire(ctx, want)
	if segno.KindOf(err) == segno.KindBusy && err != nil {
		if err := releaseOfDead(ctx, leaser, thread); err != nil {
			return nil, err
		}
		held, err = leaser.Acquire(ctx, want)
	}
	if err != nil {
		return nil, err
	}
	l := &lease{leaser: leaser, held: held, done: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go l.renew(ctx)
	return l, nil
}

// releaseOfDead releases the lease of a thread if its process has ended.
func releaseOfDead(ctx context.Context, leaser segno.Leaser, thread segno.ThreadID) error {
	held, err := leaser.LeaseOf(ctx, thread)
	if err != nil {
		return err
	}
	pid, start, _, ok := proc.ParseOwner(ownerKind, held.Owner)
	if !ok || proc.Alive(pid, start) {
		return nil
	}
	if err := leaser.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
		return err
	}
	return nil
}

// renew renews the lease. If another process took it over, the epoch of the run's next commit is too low, and the
// commit fails.
func (l *lease) renew(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		want := l.held
		want.Expires = time.Now().Add(leaseTime)
		if got, err := l.leaser.Acquire(ctx, want); err == nil && got.Epoch != l.held.Epoch {
			return // it had expired
		}
	}
}

// epoch returns the epoch of the run's commits.
func (l *lease) epoch(head segno.Head) uint64 {
	if l == nil {
		return head.Epoch
	}
	return l.held.Epoch
}

// release ends the lease.
func (l *lease) release(ctx context.Context) {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	_ = l.leaser.Release(ctx, l.held) // otherwise it expires
}
