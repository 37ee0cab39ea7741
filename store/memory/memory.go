// Package memory is a [segno.Store] that lives as long as the process: for tests
// and for agents that need no more. It is also what the rules of a store look
// like in the fewest lines; store/storetest holds it to them.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

// Store is a [segno.Store], and [segno.Chains], [segno.Workspaces],
// [segno.Leaser], [segno.Collector], [segno.Eraser] and [segno.Watcher]. One lock guards all of it.
type Store struct {
	clock    func() time.Time
	notifier notify.Notifier

	mu         sync.Mutex
	closed     bool
	threads    map[segno.ThreadID]*thread
	phases     [segno.PhaseWaiting + 1]map[segno.ThreadID]*thread // those that are not deleted
	commits    map[segno.CommitID]*commit
	order      []*commit
	pins       map[segno.CommitID]string
	objects    map[segno.Hash]object
	workspaces map[segno.WorkspaceID]*workspace
	log        []segno.Operation
}

var (
	_ segno.Store      = (*Store)(nil)
	_ segno.Chains     = (*Store)(nil)
	_ segno.Workspaces = (*Store)(nil)
	_ segno.Leaser     = (*Store)(nil)
	_ segno.Collector  = (*Store)(nil)
	_ segno.Eraser     = (*Store)(nil)
)

type thread struct {
	segno.Thread
	head    segno.Head
	hidden  bool
	changed int // the place of its newest commit in the order of all
	links   []segno.Link
	link    int // the place of the head session's in links, from 1; 0 is none
	lease   segno.Lease
	phase   segno.Phase
}

type commit struct {
	segno.Node
	digest segno.Hash
	result segno.Head
	node   bool // has a place in the tree
	turn   int
}

type workspace struct {
	known  bool
	record segno.WorkspaceRecord
}

// New returns an empty store. clock tells the age of objects and leases; nil is
// time.Now.
func New(clock func() time.Time) *Store {
	if clock == nil {
		clock = time.Now
	}
	return &Store{clock: clock, threads: map[segno.ThreadID]*thread{}, commits: map[segno.CommitID]*commit{},
		pins: map[segno.CommitID]string{}, objects: map[segno.Hash]object{}, workspaces: map[segno.WorkspaceID]*workspace{}}
}

// setPhase records the phase of a thread.
func (s *Store) setPhase(t *thread, p segno.Phase) {
	delete(s.phases[t.phase], t.ID)
	if s.phases[p] == nil {
		s.phases[p] = map[segno.ThreadID]*thread{}
	}
	t.phase, s.phases[p][t.ID] = p, t
}

// begin takes the lock for one call.
func (s *Store) begin(ctx context.Context, op string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, segno.NewError(segno.KindCancelled, op, "", err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	return s.mu.Unlock, nil
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.notifier.NotifyAll()
	return nil
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	end, err := s.begin(ctx, "read head")
	if err != nil {
		return segno.Head{}, err
	}
	defer end()
	t, err := s.thread("read head", id)
	if err != nil {
		return segno.Head{}, err
	}
	return t.head, nil
}

func (s *Store) thread(op string, id segno.ThreadID) (*thread, error) {
	if t := s.threads[id]; t != nil && !t.hidden {
		return t, nil
	}
	return nil, notFound(op, string(id))
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, id segno.ThreadID) error {
	end, err := s.begin(ctx, "delete thread")
	if err != nil {
		return err
	}
	defer end()
	t, err := s.thread("delete thread", id)
	if err == nil {
		t.hidden = true
		delete(s.phases[t.phase], id)
		s.notifier.Notify(id)
	}
	return err
}

// Acquire implements [segno.Leaser].
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return l, err
	}
	defer end()
	now := s.clock()
	if l.Owner == "" || !l.Expires.After(now) {
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "it needs an owner and an end in the future")
	}
	t, err := s.thread(op, l.Thread)
	if err != nil {
		return l, err
	}
	held := t.lease.Owner != "" && now.Before(t.lease.Expires)
	switch {
	case held && t.lease.Owner != l.Owner:
		return l, segno.Errorf(segno.KindBusy, op, string(l.Thread), "%s", "it is held by "+t.lease.Owner)
	case l.Epoch != 0 && l.Epoch < t.head.Epoch:
		return l, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
	case !held:
		t.head.Epoch++
	}
	l.Epoch = t.head.Epoch
	t.lease = l
	return l, nil
}

// Release implements [segno.Leaser].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	t, err := s.thread(op, l.Thread)
	if err != nil {
		return err
	}
	if t.lease.Owner != l.Owner || t.head.Epoch != l.Epoch {
		return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
	}
	t.lease = segno.Lease{}
	return nil
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	const op = "read lease"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Lease{}, err
	}
	defer end()
	t, err := s.thread(op, thread)
	if err != nil || t.lease.Owner == "" || !s.clock().Before(t.lease.Expires) {
		return segno.Lease{}, err
	}
	return t.lease, nil
}

func notFound(op, name string) error {
	return segno.NewError(segno.KindNotFound, op, name, nil)
}
