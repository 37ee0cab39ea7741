// Package storetest says in clauses what a [segno.Store] owes. Each clause is a
// subtest; one that fails says which rule the store broke. A store's own test is
// a few lines:
//
//	clock := storetest.NewClock()
//	storetest.Test(t, func(t *testing.T) segno.Store { return open(t, clock.Now) }, storetest.Options{Clock: clock})
//
// Optional abilities are found by assertion and asked of a store that has them.
// A clause about one it has not, or whose means the Options do not give, is not
// there at all: nothing is skipped, and a verbose run names what was not asked.
//
// [TestSaver] is the same for somebody's own [segno.Saver] that is on no Store.
package storetest

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// Options are what only the store's own test can do.
type Options struct {
	// Reopen closes s and opens the same store again. It is nil for a store that
	// does not outlive its process.
	Reopen func(t *testing.T, s segno.Store) segno.Store
	// Another opens the store s once more beside it, as another process does.
	Another func(t *testing.T, s segno.Store) segno.Store
	// Size is how many bytes the store takes at rest.
	Size func(t *testing.T, s segno.Store) int64
	// Clock is what the stores read the time from. Clauses about age need it.
	Clock *Clock
}

// Clock is a clock that stands until it is set. All methods may be called at once.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a fixed moment.
func NewClock() *Clock { return &Clock{now: epoch} }

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on, or back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// clause is one rule.
type clause struct {
	name string
	rule string // what a store that fails it breaks
	test func(f *fixture)
}

// Test holds a kind of store to the clauses, those of a saver on it included. open
// returns a new empty store, which Test closes.
func Test(t *testing.T, open func(t *testing.T) segno.Store, o Options) {
	run(t, allGroups(), func(t *testing.T) *fixture { return onto(t, open(t), o) })
}

// allGroups are the clauses of a store.
func allGroups() []group {
	return append([]group{
		{"ownership", ownership(), nil}, {"ownership", openings(), []ability{another}},
		{"commit", commits(), nil}, {"line", lines(), nil}, {"list", lists(), nil}, {"list", listings(), nil}, {"ids", ids(), nil}, {"values", values(), nil},
		{"objects", objects(), nil}, {"objects", otherObjects(), []ability{another}},
		{"close", closing(), nil}, {"reopen", reopening(), []ability{reopens}},
		{"scale", scale(), nil}, {"scale", sizing(), []ability{sizes}},
		{"workspace", workspaces(), []ability{worker}},
		{"lease", leases(), []ability{leaser}}, {"lease", otherLeases(), []ability{leaser, another}}, {"lease", expiring(), []ability{leaser, clocked}},
		{"collect", collections(), []ability{collector, clocked}},
	}, saverGroups()...)
}

// soak reports whether the long versions are wanted.
func soak() bool { return os.Getenv("SEGNO_SOAK") != "" }
