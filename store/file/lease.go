package file

import (
	"context"

	"github.com/dalsegno/segno"
)

// Acquire implements [segno.Leaser]. A lease is a record of the log, as a renewal
// is.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return l, err
	}
	defer end()
	now := s.clock()
	if l.Owner == "" || !l.Expires.After(now) {
		return l, invalid(op, string(l.Thread), "it needs an owner and an end in the future")
	}
	err = s.update(ctx, op, l.Thread, func(t *thread) (record, error) {
		held := t.lease.Owner != "" && now.Before(t.lease.Expires)
		epoch := t.head.Epoch
		switch {
		case held && t.lease.Owner != l.Owner:
			return record{}, segno.Errorf(segno.KindBusy, op, string(l.Thread), "%s", "it is held by "+t.lease.Owner)
		case l.Epoch != 0 && l.Epoch < epoch:
			return record{}, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		case !held:
			epoch++
		}
		l.Epoch = epoch
		return record{Lease: &l}, nil
	})
	return l, err
}

// Release implements [segno.Leaser].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	return s.update(ctx, op, l.Thread, func(t *thread) (record, error) {
		if t.lease.Owner != l.Owner || t.head.Epoch != l.Epoch {
			return record{}, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		return record{Lease: &segno.Lease{Thread: t.id, Epoch: t.head.Epoch}}, nil
	})
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	const op = "read lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Lease{}, err
	}
	defer end()
	t, err := s.fresh(ctx, op, thread)
	if err != nil {
		return segno.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.lease.Owner == "" || !s.clock().Before(t.lease.Expires) {
		return segno.Lease{}, nil
	}
	return t.lease, nil
}
