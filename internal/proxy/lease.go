package proxy

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

const (
	leaseTime   = time.Minute            // how long a lease is valid; it is renewed three times in that time
	releaseWait = 250 * time.Millisecond // how long an answer to the client waits for the release of a lease
)

// heldError is the error of a prompt while another client has the thread's lease.
type heldError struct{ owner string }

func (e *heldError) Error() string {
	if fields := strings.Fields(e.owner); len(fields) > 1 && fields[0] == "acp" {
		return "another client works on this thread (process " + fields[1] + ")"
	}
	return "another client works on this thread (" + e.owner + ")"
}

func isHeld(err error) bool {
	var held *heldError
	return errors.As(err, &held)
}

// acquireLease takes the lease on the thread. It releases the lease of a process that has
// ended.
func (l *ledger) acquireLease(ctx context.Context) error {
	want := segno.Lease{Thread: l.thread, Owner: l.leaseOwner(), Expires: l.proxy.Place.Now().Add(leaseTime)}
	for {
		got, err := l.proxy.store.Acquire(ctx, want)
		if err == nil {
			l.lease = got
			return nil
		}
		held, heldErr := l.proxy.store.LeaseOf(ctx, l.thread)
		if segno.KindOf(err) != segno.KindBusy || heldErr != nil || held.Owner == "" {
			return err
		}
		if !ownerGone(held.Owner) {
			return segno.NewError(segno.KindBusy, "prompt", string(l.thread), &heldError{held.Owner}).
				WithHint("wait for its turn to end, or fork the thread")
		}
		if err := l.proxy.store.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
			return err
		}
	}
}

// releaseLease lets other clients prompt. If the store is busy, the client's answer does not
// wait for it: the lease is released later, or expires.
func (l *ledger) releaseLease() {
	held := l.lease
	if l.lease = (segno.Lease{}); held.Epoch == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.proxy.ctx), releaseWait)
	defer cancel()
	if err := l.proxy.store.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
		l.proxy.logf("release the lease: %v", err)
	}
	if ctx.Err() != nil {
		l.proxy.work.Go(func() { _ = l.proxy.store.Release(context.WithoutCancel(l.proxy.ctx), held) })
	}
}

// leaseOwner names this session of this process.
func (l *ledger) leaseOwner() string {
	return l.proxy.owner + " " + segno.DerivedID("lane", string(l.record.Client))[:8]
}

// heldElsewhere reports whether another client's turn is under way on the thread.
func (l *ledger) heldElsewhere(ctx context.Context) (bool, error) {
	if l.thread == "" {
		return false, nil
	}
	held, err := l.proxy.store.LeaseOf(ctx, l.thread)
	return held.Owner != "" && held.Owner != l.leaseOwner() && !ownerGone(held.Owner), err
}

// ownerGone reports whether the process that owns a lease has ended. The processes of owners
// of other kinds are unknown.
func ownerGone(owner string) bool {
	fields := strings.Fields(owner)
	if len(fields) < 3 || fields[0] != "acp" {
		return false
	}
	pid, err := strconv.Atoi(fields[1])
	return err == nil && !proc.Alive(pid, strings.Trim(fields[2], "-"))
}

// renewal renews the lease of a turn, whatever the session's goroutine waits for.
type renewal struct {
	mu      sync.Mutex
	timer   *time.Timer
	ended   bool
	renewed segno.Lease // the newest; zero if it was not renewed yet
}

// startRenewal renews a lease until stop is called. It does not use the session's goroutine,
// which may wait for the agent longer than the lease is valid.
func startRenewal(p *proxy, l segno.Lease) *renewal {
	const every = leaseTime / 3
	r := &renewal{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(every, func() {
		l.Expires = p.Place.Now().Add(leaseTime)
		got, err := p.store.Acquire(p.ctx, l)
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.ended && err == nil:
			_ = p.store.Release(p.ctx, got) // the turn ended meanwhile; at worst the lease expires
		case r.ended:
		case err != nil:
			p.logf("renew the lease: %v", err) // a commit under it will fail
			r.timer.Reset(every)
		default:
			l, r.renewed = got, got // a lease that had expired gets another epoch
			r.timer.Reset(every)
		}
	})
	return r
}

// stop ends the renewal and returns the newest lease, or first if it was not renewed.
func (r *renewal) stop(first segno.Lease) segno.Lease {
	if r == nil {
		return first
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.timer.Stop()
	if r.renewed.Epoch != 0 {
		return r.renewed
	}
	return first
}
