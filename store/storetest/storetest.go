// Package storetest says in clauses what a [segno.Store] and a [segno.Saver] owe.
// Each clause is a subtest; one that fails says which rule was broken. A store's own
// test is a few lines:
//
//	clock := storetest.NewClock()
//	storetest.Test(t, func(t *testing.T) segno.Store { return open(t, clock.Now) }, storetest.Options{Clock: clock})
//
// [TestSaver] is the same for somebody's own saver that is on no store. Optional
// abilities are found by assertion and asked of who has them. A clause about one
// that is lacking, or whose means the Options do not give, is not there at all:
// nothing is skipped, and a verbose run names what was not asked.
//
// The clauses, by the first part of their names:
//
//   - ownership, lease: of many writers one wins; one that was fenced is refused.
//   - commit, line, workspace: what a commit does, whole, once; lines, moves, forks.
//   - list: every field of a query, and any of them together against an oracle.
//   - ids, values, objects: what goes in comes out, and is a copy.
//   - errors: how a context ended, and that a disk is full, is found by errors.Is.
//   - close, reopen, scale: a life; and what things cost, counted and not timed.
//   - watch, wait: who waits for a thread misses nothing; with the ability, and without.
//   - retention: rules drop lines that were left, and threads expire.
//   - erase: of a purged thread no byte is left, and what others reach stays.
//   - collect: what is reached stays and adds up to the same state.
//   - saver, interrupt, history, travel, fork, state: a saver, on a store or not.
//   - langgraph: the clauses of LangGraph's own suite under their own names, as far
//     as they have a meaning here.
//
// By default chance is sampled; with SEGNO_SOAK set every combination is asked and
// the scales are longer.
//
// What a suite cannot see is each store's own test: that a kill at any moment leaves
// the old state or the new, that damage at rest is [segno.KindCorrupt] and named, that
// files of every released version open. Stores that seal what they keep are held to more
// by [TestSealed].
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
	// Raw is all that the store keeps at rest, byte by byte: files, rows, values.
	Raw func(t *testing.T, s segno.Store) []byte
	// Full leaves no room for what s writes, until end is called.
	Full func(t *testing.T, s segno.Store) (end func())
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
// returns a new empty store, which Test closes. With -short it asks a sample of the
// clauses.
func Test(t *testing.T, open func(t *testing.T) segno.Store, o Options) {
	if testing.Short() && !soak() {
		TestSome(t, 1, open, o)
		return
	}
	run(t, allGroups(), func(t *testing.T) *fixture { return onto(t, open(t), o) })
}

// allGroups are the clauses of a store.
func allGroups() []group {
	return append([]group{
		{"ownership", ownership(), nil}, {"ownership", openings(), []ability{another}},
		{"commit", commits(), nil}, {"line", lines(), nil}, {"list", lists(), nil}, {"list", listings(), nil}, {"list", phases(), nil}, {"list", phasesAgain(), []ability{reopens}}, {"ids", ids(), nil}, {"values", values(), nil},
		{"objects", objects(), nil}, {"objects", otherObjects(), []ability{another}},
		{"errors", endings(), nil}, {"errors", fullDisks(), []ability{fills}},
		{"close", closing(), nil}, {"reopen", reopening(), []ability{reopens}},
		{"scale", scale(), nil}, {"scale", sizing(), []ability{sizes}},
		{"watch", watching(able()), []ability{watcher}}, {"watch", otherWatching(able()), []ability{watcher, another}},
		{"wait", watching(plainly()), nil}, {"wait", otherWatching(plainly()), []ability{another}},
		{"workspace", workspaces(), []ability{worker}},
		{"lease", leases(), []ability{leaser}}, {"lease", otherLeases(), []ability{leaser, another}}, {"lease", expiring(), []ability{leaser, clocked}},
		{"collect", collections(), []ability{collector, clocked}},
		{"retention", retentions(), []ability{collector, clocked}},
		{"erase", erasing(), []ability{eraser, raw}}, {"erase", erasingHeld(), []ability{eraser, leaser}},
	}, saverGroups()...)
}

// soak reports whether the long versions are wanted.
func soak() bool { return os.Getenv("SEGNO_SOAK") != "" }
