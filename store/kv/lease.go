package kv

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
)

// A lease has a key of its own beside the log; the epoch it raises is a record,
// so that a commit of an older epoch meets it where it meets any other. A crash
// between the two leaves a lease nobody was told of, and its epoch is made good by
// whoever takes the thread next.

// Acquire implements [segno.Leaser].
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return l, err
	}
	defer end()
	if l.Owner == "" || !l.Expires.After(s.options.Clock()) {
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "it needs an owner and an end in the future")
	}
	for {
		got, err := s.acquire(ctx, l)
		if segno.KindOf(err) != segno.KindConflict || ctx.Err() != nil {
			return got, fail(op, string(l.Thread), err)
		}
	}
}

func (s *Store) acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	st, err := s.visible(ctx, l.Thread, false)
	if err != nil {
		return l, err
	}
	old, rev, err := s.lease(ctx, l.Thread)
	if err != nil {
		return l, err
	}
	held := old.Owner != "" && s.options.Clock().Before(old.Expires)
	epoch := max(st.Epoch, old.Epoch)
	switch {
	case held && old.Owner != l.Owner:
		return l, segno.Errorf(segno.KindBusy, "acquire lease", string(l.Thread), "%s", "it is held by "+old.Owner)
	case l.Epoch != 0 && l.Epoch < epoch:
		return l, segno.NewError(segno.KindFenced, "", "", nil)
	case !held:
		epoch++
	}
	l.Epoch = epoch
	if already := held && old.Epoch == epoch && old.Expires.Equal(l.Expires); !already {
		if err := s.putLease(ctx, l, rev); err != nil {
			return l, err
		}
	}
	for st.Epoch < epoch {
		e := st.entryAfter(l.Thread)
		e.epoch, e.stamp = epoch, max(s.stamp(), st.stamp+1)
		if err = s.follow(ctx, st, e); err == nil {
			break
		}
		if segno.KindOf(err) != segno.KindConflict {
			return l, err
		}
		if st, err = s.visible(ctx, l.Thread, true); err != nil {
			return l, err
		}
	}
	return l, nil
}

// follow writes a record that is no commit.
func (s *Store) follow(ctx context.Context, st *state, e *entry) error {
	next, err := st.after(e)
	if err != nil {
		return err
	}
	if err := s.renew(ctx, st, next); err != nil {
		return err
	}
	_, err = s.append(ctx, st, next, e, nil)
	return err
}

// lease reads a thread's lease, in force or not; the zero Lease if there is none.
func (s *Store) lease(ctx context.Context, thread segno.ThreadID) (l segno.Lease, rev Rev, err error) {
	key := leaseKey(thread)
	val, rev, err := s.kv.Get(ctx, key)
	if err != nil {
		if segno.KindOf(err) == segno.KindNotFound {
			return l, RevNone, nil
		}
		return l, "", err
	}
	content, err := s.code.unframe(key, val)
	if err != nil {
		return l, "", err
	}
	r := reader{b: content}
	l = segno.Lease{Thread: thread, Owner: r.text(), Epoch: r.uint()}
	if errTime := l.Expires.UnmarshalBinary(r.bytes()); r.err != nil || errTime != nil {
		return l, "", damaged(key, errors.Join(r.err, errTime))
	}
	return l, rev, nil
}

func (s *Store) putLease(ctx context.Context, l segno.Lease, rev Rev) error {
	expires, err := l.Expires.MarshalBinary()
	if err != nil {
		return segno.NewError(segno.KindInvalid, "", "", err)
	}
	key := leaseKey(l.Thread)
	var w writer
	w.text(l.Owner)
	w.uint(l.Epoch)
	w.bytes(expires)
	_, err = s.run(ctx, []Op{{Key: key, Val: s.code.frame(key, w.b), If: rev, TTL: s.options.TTL}})
	return err
}

// Release implements [segno.Leaser]. The lease stays with an end that is past, for
// its epoch.
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	for try := 0; ; try++ {
		err := s.release(ctx, l, try > 0)
		if segno.KindOf(err) != segno.KindConflict || ctx.Err() != nil {
			return fail(op, string(l.Thread), err)
		}
	}
}

// release gives a lease up. again says that it was tried before and met a change,
// which may have been its own: a KV may send a change twice.
func (s *Store) release(ctx context.Context, l segno.Lease, again bool) error {
	if _, err := s.visible(ctx, l.Thread, false); err != nil {
		return err
	}
	held, rev, err := s.lease(ctx, l.Thread)
	if err != nil {
		return err
	}
	if again && held.Owner == "" && held.Epoch == l.Epoch {
		return nil
	}
	if held.Owner == "" || held.Owner != l.Owner || held.Epoch != l.Epoch {
		return segno.NewError(segno.KindFenced, "", "", nil)
	}
	return s.putLease(ctx, segno.Lease{Thread: l.Thread, Epoch: l.Epoch, Expires: time.Time{}}, rev)
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	const op = "read lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Lease{}, err
	}
	defer end()
	if _, err := s.visible(ctx, thread, false); err != nil {
		return segno.Lease{}, fail(op, string(thread), err)
	}
	l, _, err := s.lease(ctx, thread)
	if err != nil || l.Owner == "" || !s.options.Clock().Before(l.Expires) {
		return segno.Lease{}, fail(op, string(thread), err)
	}
	return l, nil
}
