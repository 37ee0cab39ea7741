package ledger_test

import (
	"context"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/testing/ledgertest"
)

// mapStore applies commits with only this package, in the same way as every store.
type mapStore struct {
	threads    map[segno.ThreadID]ledger.Thread
	commits    map[segno.CommitID]*applied
	operations map[segno.OperationID]bool
}

type applied struct {
	segno.Commit
	digest segno.Hash
	turn   int
	head   segno.Head
}

func newMapStore(*testing.T) ledgertest.Store {
	return &mapStore{map[segno.ThreadID]ledger.Thread{}, map[segno.CommitID]*applied{}, map[segno.OperationID]bool{}}
}

func (s *mapStore) Commit(_ context.Context, c segno.Commit) (segno.Head, error) {
	digest, err := ledger.Prepare(&c)
	if err != nil {
		return segno.Head{}, err
	}
	if done := s.commits[c.ID]; done != nil {
		return done.head, ledger.Repeat(&c, s.threads[done.Thread].Deleted, done.digest == digest)
	}
	thread := s.threads[c.Thread]
	if err := ledger.Admit(&thread, &c, s); err != nil {
		return segno.Head{}, err
	}
	turn := 0
	if parent := s.commits[c.Parent]; parent != nil {
		turn = parent.turn
	}
	next := ledger.Next(&thread, &c, turn)
	s.threads[c.Thread] = next
	s.commits[c.ID] = &applied{c, digest, ledger.Turn(&c, turn), next.Head}
	if c.Operation != nil {
		s.operations[c.Operation.ID] = true
	}
	return next.Head, nil
}

func (s *mapStore) Head(_ context.Context, id segno.ThreadID) (segno.Head, error) {
	return s.threads[id].Head, nil
}

func (s *mapStore) Delete(_ context.Context, id segno.ThreadID) error {
	thread := s.threads[id]
	thread.Deleted = true
	s.threads[id] = thread
	return nil
}

func (s *mapStore) Acquire(_ context.Context, l segno.Lease) (segno.Lease, error) {
	thread := s.threads[l.Thread]
	thread.Epoch++
	s.threads[l.Thread], l.Epoch = thread, thread.Epoch
	return l, nil
}

func (s *mapStore) Release(context.Context, segno.Lease) error { return nil }

func (s *mapStore) LeaseOf(context.Context, segno.ThreadID) (l segno.Lease, err error) {
	return l, nil
}

func (s *mapStore) HasNode(id segno.CommitID) (bool, error) {
	c := s.commits[id]
	return c != nil && c.IsNode(), nil
}

func (s *mapStore) HasCheckpoint(id segno.CommitID) (bool, error) {
	c := s.commits[id]
	return c != nil && c.Checkpoint != nil, nil
}

func (s *mapStore) HasOperation(id segno.OperationID) (bool, error) { return s.operations[id], nil }

func (s *mapStore) MissingObject(names []segno.Hash) (segno.Hash, error) { return names[0], nil }

func TestCases(t *testing.T) { ledgertest.Run(t, newMapStore, true) }
