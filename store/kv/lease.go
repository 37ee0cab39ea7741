package kv

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// A lease has a key that is separate from the log. The epoch that it raises is a record, so that a
// commit with an older epoch conflicts with that record as with any other. After a crash between the
// two, there is a lease that no caller received; the next owner writes its epoch.

// Acquire implements [segno.Leaser].
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (got segno.Lease, err error) {
	err = s.retryConflicts(ctx, "acquire lease", l.Thread, func(bool) (err error) {
		got, err = s.acquire(ctx, l)
		return err
	})
	return got, err
}

func (s *Store) acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	st, err := s.readVisible(ctx, l.Thread, false)
	if err != nil {
		return l, err
	}
	old, rev, err := s.readLease(ctx, l.Thread)
	if err == nil {
		l, err = ledger.Acquire(old, max(st.Epoch, old.Epoch), l, s.options.Clock())
	}
	if err == nil && (old.Owner != l.Owner || old.Epoch != l.Epoch || !old.Expires.Equal(l.Expires)) {
		err = s.putLease(ctx, l, rev)
	}
	if err != nil {
		return l, err
	}
	return l, s.raiseEpoch(ctx, st, l.Epoch)
}

func (s *Store) raiseEpoch(ctx context.Context, st *threadState, epoch uint64) error {
	for st.Epoch < epoch {
		e := s.nextRecord(st)
		e.Epoch = epoch
		err := s.appendRecord(ctx, st, e)
		if !isKind(err, segno.KindConflict) {
			return err
		}
		if st, err = s.readVisible(ctx, st.Head.Thread, true); err != nil {
			return err
		}
	}
	return nil
}

// readLease reads a thread's lease, even if it has expired, or returns the zero Lease if there is
// none.
func (s *Store) readLease(ctx context.Context, thread segno.ThreadID) (l segno.Lease, rev Rev, err error) {
	key := leaseKey(thread)
	val, rev, err := s.get(ctx, key)
	if err != nil || val == nil {
		return l, rev, err
	}
	l.Thread = thread
	var expires []byte
	err = s.code.decode(key, val, func(f *fields) { leaseFields(f, &l, &expires) })
	if err == nil {
		if err = l.Expires.UnmarshalBinary(expires); err != nil {
			err = damaged(key, errors.New("its time cannot be decoded"))
		}
	}
	return l, rev, err
}

func leaseFields(f *fields, l *segno.Lease, expires *[]byte) {
	text(f, &l.Owner)
	unsigned(f, &l.Epoch)
	text(f, expires)
}

func (s *Store) putLease(ctx context.Context, l segno.Lease, rev Rev) error {
	expires, err := l.Expires.MarshalBinary()
	if err != nil {
		return segno.NewError(segno.KindInvalid, "", "", err)
	}
	key := leaseKey(l.Thread)
	val := encodeFields(func(f *fields) { leaseFields(f, &l, &expires) })
	_, err = s.apply(ctx, []Op{{Key: key, Val: s.code.frame(key, val), If: rev, TTL: s.options.TTL}})
	return err
}

// Release implements [segno.Leaser]. The key of the lease stays, because it has the epoch.
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	return s.retryConflicts(ctx, "release lease", l.Thread, func(retry bool) error { return s.release(ctx, l, retry) })
}

// release releases a lease. If retry is set, an earlier attempt conflicted with a change. That change
// may be the caller's own, because a KV may send a change twice.
func (s *Store) release(ctx context.Context, l segno.Lease, retry bool) error {
	if _, err := s.readVisible(ctx, l.Thread, false); err != nil {
		return err
	}
	held, rev, err := s.readLease(ctx, l.Thread)
	switch {
	case err != nil:
		return err
	case retry && held.Owner == "" && held.Epoch == l.Epoch:
		return nil
	case held.Owner == "" || held.Owner != l.Owner || held.Epoch != l.Epoch:
		return segno.NewError(segno.KindFenced, "", "", nil)
	}
	return s.putLease(ctx, segno.Lease{Thread: l.Thread, Epoch: l.Epoch}, rev)
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	return call(ctx, s, "read lease", string(thread), func() (segno.Lease, error) {
		if _, err := s.readVisible(ctx, thread, false); err != nil {
			return segno.Lease{}, err
		}
		l, _, err := s.readLease(ctx, thread)
		return ledger.InForce(l, s.options.Clock()), err
	})
}
