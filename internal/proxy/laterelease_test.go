package proxy

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/memory"
)

// lateStore is a store whose releases are waiting for its writer until free is closed.
type lateStore struct {
	Store
	memory *memory.Store
	free   chan struct{}
}

func (s *lateStore) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	return s.memory.Acquire(ctx, l)
}

func (s *lateStore) Release(ctx context.Context, l segno.Lease) error {
	select {
	case <-s.free:
		return s.memory.Release(ctx, l)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestALateReleaseLeavesTheNextLease ends a turn while the store is busy, so that its lease is released later, and begins the next turn
// meanwhile. The release must not end the lease of the next turn, because another client could then prompt during it.
func TestALateReleaseLeavesTheNextLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lateStore{memory: memory.New(time.Now), free: make(chan struct{})}
		if _, err := s.memory.Commit(t.Context(), segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}); err != nil {
			t.Fatal(err)
		}
		p := &proxy{ctx: t.Context(), store: s, owner: "acp 1 1", Config: Config{Stderr: io.Discard, Place: local.Place{Now: time.Now}}}
		l := &sessionStore{proxy: p, record: sessionRecord{Client: "s", Thread: "t"}}
		if err := l.acquireLease(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.releaseLease()
		l = &sessionStore{proxy: p, record: l.record} // the client loaded the session again
		acquired := make(chan error, 1)
		go func() { acquired <- l.acquireLease(t.Context()) }()
		synctest.Wait()
		close(s.free)
		if err := <-acquired; err != nil {
			t.Fatal(err)
		}
		p.work.Wait()
		if held, err := s.memory.LeaseOf(t.Context(), "t"); err != nil || held.Owner != l.leaseOwner() {
			t.Errorf("the lease of the next turn is %+v, %v", held, err)
		}
	})
}
