package agent

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

// leaseTime is how long a run that fell silent keeps its thread from others on
// another machine. On this one a run whose process is gone has it no longer.
const leaseTime = 30 * time.Second

// lease is a run's right to a thread, renewed until it is given up. Without it a
// call that another run is just making would look like one whose result was lost.
type lease struct {
	segno.Lease
	leaser segno.Leaser
	cancel context.CancelFunc
	done   chan struct{}
}

// owner names a run: machine, process, its start, and the run itself.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return strings.Join([]string{"agent", host, strconv.Itoa(os.Getpid()), proc.Start(os.Getpid()), segno.NewID()}, " ")
}

// gone reports whether an owner's process has ended, as far as this machine can tell.
func gone(owner string) bool {
	f := strings.Split(owner, " ")
	host, err := os.Hostname()
	if len(f) != 5 || f[0] != "agent" || err != nil || f[1] != host {
		return false
	}
	pid, err := strconv.Atoi(f[2])
	return err == nil && !proc.Alive(pid, f[3])
}

// acquire takes the thread. Held by another run, it is a conflict with the head; a
// lease of a process that is gone is taken over.
func (r *run) acquire(ctx context.Context) (*lease, error) {
	leaser, ok := r.Store.(segno.Leaser)
	if !ok {
		return nil, nil
	}
	want := segno.Lease{Thread: r.thread, Owner: owner(), Expires: time.Now().Add(leaseTime)}
	got, err := leaser.Acquire(ctx, want)
	if segno.KindOf(err) == segno.KindBusy {
		held, heldErr := leaser.Held(ctx, r.thread)
		if heldErr != nil {
			return nil, heldErr
		}
		if held.Owner != "" && !gone(held.Owner) {
			return nil, &segno.Error{Op: "run agent", Name: string(r.thread), Kind: segno.KindConflict,
				Err: fmt.Errorf("another run has the thread until %s: %w", held.Expires.Format(time.TimeOnly), &segno.ConflictError{Actual: r.head})}
		}
		if held.Owner != "" {
			if err := leaser.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
				return nil, err
			}
		}
		got, err = leaser.Acquire(ctx, want)
	}
	if err != nil {
		if segno.KindOf(err) == segno.KindBusy {
			err = &segno.Error{Op: "run agent", Name: string(r.thread), Kind: segno.KindConflict, Err: &segno.ConflictError{Actual: r.head}}
		}
		return nil, err
	}
	l := &lease{Lease: got, leaser: leaser, done: make(chan struct{})}
	renewals, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.renew(renewals)
	return l, nil
}

// renew keeps the lease until it is given up. If it is lost, the next commit is
// refused; nothing else needs to be done.
func (l *lease) renew(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for next := l.Lease; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			next.Expires = time.Now().Add(leaseTime)
			if _, err := l.leaser.Acquire(ctx, next); segno.KindOf(err) == segno.KindFenced {
				return
			}
		}
	}
}

// giveUp ends the renewals and the lease.
func (l *lease) giveUp(ctx context.Context) {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
	_ = l.leaser.Release(ctx, l.Lease) // it runs out by itself
}

// epoch is what the run's commits carry.
func (r *run) epoch() uint64 {
	if r.lease != nil {
		return r.lease.Epoch
	}
	return r.head.Epoch
}

// grace is a context for what must be recorded even if ctx ends: it lasts a few
// seconds longer.
func grace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(graceTime, cancel)
		context.AfterFunc(longer, func() { t.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// graceTime is how long a run that was cancelled may take to record what it did.
const graceTime = 5 * time.Second
