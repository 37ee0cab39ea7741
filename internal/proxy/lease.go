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

// leaseFor is how long a thread stays ours without a word from us. It is renewed
// three times in that time.
const leaseFor = time.Minute

// heldError is the error of a thread that another client works on.
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

// acquire takes the lease. One whose owner is gone is released first.
func (s *session) acquire(ctx context.Context) error {
	want := segno.Lease{Thread: s.thread, Owner: s.leaseOwner(), Expires: s.proxy.Place.Now().Add(leaseFor)}
	for {
		got, err := s.proxy.store.Acquire(ctx, want)
		if err == nil {
			s.lease = got
			return nil
		}
		held, heldErr := s.proxy.store.LeaseOf(ctx, s.thread)
		if segno.KindOf(err) != segno.KindBusy || heldErr != nil || held.Owner == "" {
			return err
		}
		if !ownerGone(held.Owner) {
			return segno.NewError(segno.KindBusy, "prompt", string(s.thread), &heldError{held.Owner}).WithHint("wait for its turn to end, or fork the thread")
		}
		if err := s.proxy.store.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
			return err
		}
	}
}

// leaseOwner names this lane of this process.
func (s *session) leaseOwner() string {
	return s.proxy.owner + " " + segno.DerivedID("lane", string(s.id))[:8]
}

// keep renews the turn's lease until the turn ends, whatever its lane waits for.
func (t *turn) keep(p *proxy, l segno.Lease) {
	const every = leaseFor / 3
	t.renew = time.AfterFunc(every, func() {
		l.Expires = p.Place.Now().Add(leaseFor)
		got, err := p.store.Acquire(p.ctx, l)
		t.lapse.Lock()
		defer t.lapse.Unlock()
		switch {
		case !t.ended:
			if err != nil {
				p.logf("renew the lease: %v", err) // a commit under it will be refused
			} else {
				l, t.renewed = got, got // of one that had lapsed the epoch is another
			}
			t.renew.Reset(every)
		case err == nil:
			_ = p.store.Release(p.ctx, got) // the turn ended meanwhile; at worst it expires
		}
	})
}

// lease is what the turn commits under: its lease as it was renewed last.
func (t *turn) lease(first segno.Lease) segno.Lease {
	t.lapse.Lock()
	defer t.lapse.Unlock()
	if t.renewed.Epoch != 0 {
		return t.renewed
	}
	return first
}

// letGo stops the renewal of the turn's lease.
func (t *turn) letGo() {
	t.lapse.Lock()
	defer t.lapse.Unlock()
	if t.ended = true; t.renew != nil {
		t.renew.Stop()
	}
}

// ownerGone reports whether the process that owns a lease has ended. Of an owner
// of another kind nobody knows.
func ownerGone(owner string) bool {
	fields := strings.Fields(owner)
	if len(fields) < 3 || fields[0] != "acp" {
		return false
	}
	pid, err := strconv.Atoi(fields[1])
	return err == nil && !proc.Alive(pid, strings.Trim(fields[2], "-"))
}

// releaseWait is how long a client waits for its answer because a lease is given back.
const releaseWait = 250 * time.Millisecond

// letOthers gives the lease back, so that who hears of the turn's end may prompt. A
// store that is held up gets it later, or lets it expire.
func (s *session) letOthers() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.proxy.ctx), releaseWait)
	defer cancel()
	l := s.lease
	if s.release(ctx); ctx.Err() != nil && l.Epoch != 0 {
		s.proxy.work.Go(func() { _ = s.proxy.store.Release(context.WithoutCancel(s.proxy.ctx), l) })
	}
}

// release lets others write to the thread.
func (s *session) release(ctx context.Context) {
	if s.lease.Epoch == 0 {
		return
	}
	if err := s.proxy.store.Release(ctx, s.lease); err != nil && segno.KindOf(err) != segno.KindFenced {
		s.proxy.logf("give the lease back: %v", err)
	}
	s.lease = segno.Lease{}
}

// heldElsewhere reports whether another client's turn is under way on the thread.
func (s *session) heldElsewhere(ctx context.Context) (bool, error) {
	if s.thread == "" {
		return false, nil
	}
	held, err := s.proxy.store.LeaseOf(ctx, s.thread)
	return held.Owner != "" && held.Owner != s.leaseOwner() && !ownerGone(held.Owner), err
}
