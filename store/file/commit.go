package file

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
)

// Commit implements [segno.Store]. The objects of c are durable before the record is written, and
// stay in the store if it cannot be written.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	digest, err := ledger.Prepare(&c)
	if err != nil {
		return segno.Head{}, err
	}
	var repeated *commit
	head, err := s.update(ctx, "commit", c.Thread, true, func(t *thread) (*record, []segno.Entry, error) {
		if repeated = s.index.commits[c.ID]; repeated != nil {
			return nil, nil, ledger.Repeat(&c, repeated.log.Deleted, repeated.digest == digest)
		}
		if err := ledger.Admit(&t.Thread, &c, reader{s, packed(c.Staged.Packs)}); err != nil {
			return nil, nil, err
		}
		if err := s.keep(c.Staged); err != nil {
			return nil, nil, err
		}
		parentTurn := 0
		if parent := s.index.commits[c.Parent]; parent != nil {
			parentTurn = parent.turn
		}
		next := ledger.Next(&t.Thread, &c, parentTurn)
		r := &record{Commit: &commitRecord{Commit: c, Entries: len(c.Entries)}, Digest: digest,
			Head: &headRecord{Head: next.Head, Phase: next.Phase}, Turn: ledger.Turn(&c, parentTurn)}
		if c.Checkpoint != nil {
			r.Commit.Checkpoint = &checkpointRecord{Checkpoint: *c.Checkpoint}
		}
		return r, c.Entries, nil
	})
	if err != nil {
		return segno.Head{}, err
	}
	if repeated != nil {
		head = cloneHead(repeated.result)
	}
	return head, nil
}

// reader is the [ledger.Reader] of a commit that brings packed objects. The index is up to date and the
// store's lock is held, so what it finds stays true until the record is written.
type reader struct {
	s      *Store
	packed map[segno.Hash]bool
}

func (r reader) HasNode(id segno.CommitID) (bool, error) {
	x, err := r.s.index.find(id)
	return x != nil && x.isNode, ignoreNotFound(err)
}

func (r reader) HasCheckpoint(id segno.CommitID) (bool, error) {
	x, err := r.s.index.find(id)
	return x != nil && x.Checkpoint != nil, ignoreNotFound(err)
}

func (r reader) HasOperation(id segno.OperationID) (bool, error) {
	_, found := r.s.index.operations[id]
	return found, nil
}

func (r reader) MissingObject(names []segno.Hash) (segno.Hash, error) {
	for _, name := range names {
		if found, err := r.s.hasObject(name); err != nil || !found && !r.packed[name] {
			return name, err
		}
	}
	return segno.Hash{}, nil
}

// Acquire implements [segno.Leaser]. Each lease, and each renewal, is a record of the log.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	now := s.clock()
	if l.Owner == "" || !l.Expires.After(now) {
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "a lease needs an owner and an end in the future")
	}
	head, err := s.update(ctx, op, l.Thread, false, func(t *thread) (*record, []segno.Entry, error) {
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
		return &record{Lease: &next}, nil, nil
	})
	if err == nil {
		l.Epoch = head.Epoch
	}
	return l, err
}

// Release implements [segno.Leaser].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	_, err := s.update(ctx, op, l.Thread, false, func(t *thread) (*record, []segno.Entry, error) {
		if t.lease.Owner != l.Owner || t.Epoch != l.Epoch {
			return nil, nil, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		return &record{Lease: &segno.Lease{Thread: l.Thread, Epoch: t.Epoch}}, nil, nil
	})
	return err
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, id segno.ThreadID) (segno.Lease, error) {
	const op = "read lease"
	return view(ctx, s, op, func() (segno.Lease, error) {
		t, err := s.fresh(op, id)
		if err != nil || t.lease.Owner == "" || !s.clock().Before(t.lease.Expires) {
			return segno.Lease{}, err
		}
		return t.lease, nil
	})
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, id segno.ThreadID) error {
	_, err := s.update(ctx, "delete thread", id, false, func(*thread) (*record, []segno.Entry, error) {
		return &record{Hidden: true}, nil, nil
	})
	return err
}
