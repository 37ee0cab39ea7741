// Package threadlease limits a thread to one run of a program of the user.
package threadlease

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

// Lease is a run's exclusive right to a thread. Without it, a step that another process is running would look
// like a step whose result was lost. It is nil for a store without leases; its methods then do nothing.
type Lease struct {
	leaser segno.Leaser
	held   segno.Lease
	cancel context.CancelFunc
	done   chan struct{}
}

// duration is how long the lease of a process on another machine lasts after its last renewal. The lease of
// a process of this machine ends with the process.
const duration = 30 * time.Second

// ownerKind is the kind of the owners of these leases.
const ownerKind = "run"

// grace is how long the release of a lease may take.
const grace = 5 * time.Second

// Acquire acquires the lease of a thread, and renews it until Release. The error has [segno.KindBusy] if another
// run has the thread.
func Acquire(ctx context.Context, store segno.Store, thread segno.ThreadID) (*Lease, error) {
	leaser, ok := store.(segno.Leaser)
	if !ok {
		return nil, nil
	}
	want := segno.Lease{Thread: thread, Owner: proc.NewOwner(ownerKind, segno.NewID()), Expires: time.Now().Add(duration)}
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
	l := &Lease{leaser: leaser, held: held, done: make(chan struct{})}
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
func (l *Lease) renew(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(duration / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		want := l.held
		want.Expires = time.Now().Add(duration)
		if got, err := l.leaser.Acquire(ctx, want); err == nil && got.Epoch != l.held.Epoch {
			return // it had expired
		}
	}
}

// Epoch returns the epoch of the run's commits.
func (l *Lease) Epoch(head segno.Head) uint64 {
	if l == nil {
		return head.Epoch
	}
	return l.held.Epoch
}

// Held returns the lease as the store has it, or the zero value.
func (l *Lease) Held() segno.Lease {
	if l == nil {
		return segno.Lease{}
	}
	return l.held
}

// Release ends the lease.
func (l *Lease) Release(ctx context.Context) {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	_ = l.leaser.Release(ctx, l.held) // otherwise it expires
}
