package threadlog

import (
	"context"

	"github.com/dalsegno/segno"
)

// Acquire implements [segno.Leaser]. Each lease, and each renewal, is a record of the log.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	now := s.clock()
	if l.Owner == "" || !l.Expires.After(now) {
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "a lease needs an owner and an end in the future")
	}
	head, err := s.update(ctx, op, l.Thread, false, func(_ *Index, t *Thread) (*Record, []segno.Entry, error) {
		held := t.lease.Owner != "" && now.Before(t.lease.Expires)
		next := l
		next.Epoch = t.Epoch
		switch {
		case held && t.lease.Owner != l.Owner:
			return nil, nil, segno.Errorf(segno.KindBusy, op, string(l.Thread), "the lease is held by %s", t.lease.Owner)
		case l.Epoch != 0 && l.Epoch < t.Epoch:
			return nil, nil, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		case !held:
			next.Epoch++
		}
		return &Record{Lease: &next}, nil, nil
	})
	if err == nil {
		l.Epoch = head.Epoch
	}
	return l, err
}

// Release implements [segno.Leaser].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	_, err := s.update(ctx, op, l.Thread, false, func(_ *Index, t *Thread) (*Record, []segno.Entry, error) {
		if t.lease.Owner != l.Owner || t.Epoch != l.Epoch {
			return nil, nil, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		return &Record{Lease: &segno.Lease{Thread: l.Thread, Epoch: t.Epoch}}, nil, nil
	})
	return err
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, id segno.ThreadID) (segno.Lease, error) {
	const op = "read lease"
	return view(ctx, s, op, string(id), func(x *Index) (segno.Lease, error) {
		t, err := s.fresh(x, op, id)
		if err != nil || t.lease.Owner == "" || !s.clock().Before(t.lease.Expires) {
			return segno.Lease{}, err
		}
		return t.lease, nil
	})
}
