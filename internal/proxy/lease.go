package proxy

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

const (
	leaseTime   = time.Minute            // how long a lease is valid; it is renewed three times in that time
	releaseWait = 250 * time.Millisecond // how long an answer to the client waits for the release of a lease
)

// errHeld is the error of a prompt while another client has the thread's lease.
var errHeld = errors.New("another client is using this thread")

// acquireLease takes the lease on the thread. If the lease belongs to a process that has
// ended, acquireLease releases it and tries again; another process may be faster.
func (l *sessionStore) acquireLease(ctx context.Context) error {
	if c := l.continued(); c != nil {
		l.lease = c.Lease
		return nil
	}
	if released, isLate := l.proxy.releases.Load(l.leaseOwner()); isLate {
		select {
		case <-released.(chan struct{}):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	want := segno.Lease{Thread: l.record.Thread, Owner: l.leaseOwner(), Expires: l.proxy.Place.Now().Add(leaseTime)}
	for {
		got, err := l.proxy.store.Acquire(ctx, want)
		if err == nil {
			l.lease = got
			return nil
		}
		held, heldErr := l.proxy.store.LeaseOf(ctx, l.record.Thread)
		if segno.KindOf(err) != segno.KindBusy || heldErr != nil || held.Owner == "" {
			return err
		}
		if !ownerGone(held.Owner) {
			owner := held.Owner
			if fields := strings.Fields(owner); len(fields) > 1 && fields[0] == "acp" {
				owner = "process " + fields[1]
			}
			return segno.Errorf(segno.KindBusy, "prompt", string(l.record.Thread), "%w (%s)", errHeld, owner).
				WithHint("wait for its turn to end, or fork the thread")
		}
		if err := l.proxy.store.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
			return err
		}
	}
}

// releaseLease lets other clients prompt. If the store is busy, the client's answer does not
// wait for the store: the release happens later, or the lease expires.
func (l *sessionStore) releaseLease() {
	held := l.lease
	if l.lease = (segno.Lease{}); held.Epoch == 0 || l.continued() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.proxy.ctx), releaseWait)
	defer cancel()
	if err := l.proxy.store.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
		l.proxy.logf("release the lease: %v", err)
	}
	if ctx.Err() != nil {
		owner, released := l.leaseOwner(), make(chan struct{})
		l.proxy.releases.Store(owner, released)
		l.proxy.work.Go(func() {
			defer close(released)
			defer l.proxy.releases.CompareAndDelete(owner, released)
			_ = l.proxy.store.Release(context.WithoutCancel(l.proxy.ctx), held)
		})
	}
}

// leaseOwner names this session of this process, and where the process can be seen.
func (l *sessionStore) leaseOwner() string {
	return strings.TrimSpace(l.proxy.owner + " " + segno.DerivedID("lane", string(l.record.Client))[:8] + " " + l.proxy.machine)
}

// heldElsewhere reports whether another client's turn is under way on the thread.
func (l *sessionStore) heldElsewhere(ctx context.Context) (bool, error) {
	if l.record.Thread == "" || l.continued() != nil {
		return false, nil
	}
	held, err := l.proxy.store.LeaseOf(ctx, l.record.Thread)
	return held.Owner != "" && held.Owner != l.leaseOwner() && !ownerGone(held.Owner), err
}

// ownerGone reports whether the process that owns a lease has ended. It returns false for an
// owner in another format, and for one that this process cannot see. Earlier versions did not name the namespace.
func ownerGone(owner string) bool {
	fields := strings.Fields(owner)
	if len(fields) < 3 || fields[0] != "acp" {
		return false
	}
	machine := ""
	if len(fields) > 4 {
		machine = fields[4]
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		return false
	}
	alive, isSeen := proc.AliveOn(machine, pid, strings.Trim(fields[2], "-"))
	return isSeen && !alive
}

// startRenewal renews a lease until stop is called. stop returns the newest lease, because
// the renewal of an expired lease gives it another epoch. The renewal does not use the
// session's goroutine, which may wait for the agent longer than the lease is valid.
func startRenewal(p *proxy, l segno.Lease) (stop func() segno.Lease) {
	ctx, cancel := context.WithCancel(p.ctx)
	tick := time.NewTicker(leaseTime / 3)
	ended := make(chan struct{})
	p.work.Go(func() {
		defer close(ended)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			l.Expires = p.Place.Now().Add(leaseTime)
			if renewed, err := p.store.Acquire(ctx, l); err == nil {
				l = renewed
			} else if ctx.Err() == nil {
				p.logf("renew the lease: %v", err) // a commit under it will fail
			}
		}
	})
	return func() segno.Lease {
		cancel()
		<-ended
		return l
	}
}
