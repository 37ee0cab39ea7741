package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/store/file"
)

// busyStore is a store that is too busy to answer the first renewal of a lease, as a server is while it starts.
type busyStore struct {
	*file.Store
	acquired atomic.Int64
	renewed  func() // called at the second renewal
}

// Acquire implements [segno.Leaser].
func (s *busyStore) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	switch s.acquired.Add(1) {
	case 2:
		return l, segno.Errorf(segno.KindBusy, "acquire lease", string(l.Thread), "the server has too many connections")
	case 3:
		defer s.renewed()
	}
	return s.Store.Acquire(ctx, l)
}

// TestABusyStoreDoesNotEndATurn lets the renewal of a lease fail once, because the store is busy. No other run took the lease, so the
// turn continues.
func TestABusyStoreDoesNotEndATurn(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	f := newStage(t)
	m := f.machine("one")
	held := acptest.Do("one")
	held.Hold = filepath.Join(f.base, "renewed")
	m.LeaseTime = 6 * time.Second
	m.Store = &busyStore{Store: f.store, renewed: func() {
		if err := os.WriteFile(held.Hold, nil, 0o600); err != nil {
			t.Error(err)
		}
	}}
	if got := m.done("one", "one "+acptest.Directive(held, acptest.Say("the end"))); got != "the end" || f.ledger() != "one" {
		t.Errorf("the answer is %q; the calls were made: %q", got, f.ledger())
	}
}
