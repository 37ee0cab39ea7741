package threadlog

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// Acquire implements [segno.Leaser]. Each lease, and each renewal, is a record of the log.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	now := s.clock()
	got := l
	_, err := s.update(ctx, "acquire lease", l.Thread, false, func(_ *Index, t *Thread) (_ *Record, _ []segno.Entry, err error) {
		got, err = ledger.Acquire(t.lease, t.Epoch, l, now)
		return &Record{Lease: &got}, nil, err
	})
	return got, err
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
		if err != nil {
			return segno.Lease{}, err
		}
		return ledger.InForce(t.lease, s.clock()), nil
	})
}
