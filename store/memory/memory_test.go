package memory_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lent is a store that somebody else closes.
type lent struct{ *memory.Store }

func (lent) Close() error { return nil }

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Test(t, func(*testing.T) segno.Store { return memory.New(clock.Now) }, storetest.Options{
		Clock:   clock,
		Another: func(_ *testing.T, s segno.Store) segno.Store { return lent{s.(*memory.Store)} },
	})
}
