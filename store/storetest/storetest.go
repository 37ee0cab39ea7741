// Package storetest tests implementations of [segno.Store] and [saver.Saver] against their contract. Every
// rule of the contract is one subtest, and a failed subtest logs its rule. The test of a store needs only a
// few lines:
//
//	clock := storetest.NewClock()
//	storetest.Test(t, func(t *testing.T) segno.Store { return open(t, clock.Now) }, storetest.Options{Clock: clock})
//
// [TestSaver] tests a saver that does not use a segno.Store. Type assertions find optional interfaces. A
// subtest does not run if an interface or an option that it needs is missing; with -v, Test logs the names of
// those subtests.
//
// The groups are ownership and lease (one of several concurrent writers succeeds), ledger and commit, line, list, ids,
// values, objects, errors, close, reopen, scale (costs in bytes and allocations), watch and wait (the same
// tests with and without [segno.Watcher]), rename, workspace, collect, retention and erase for a store, and saver,
// interrupt, history, travel, fork, state and reopen for a saver.
//
// Random tests draw samples. If SEGNO_SOAK is set, they try every combination, and the scale tests are
// larger.
//
// Each store's own tests must cover the rules that this suite cannot check: a kill at any moment leaves the
// old or the new state, damaged data is [segno.KindCorrupt] (see [DamageTrial]), and files of every released
// version can be opened. [TestSealed] tests more rules, for stores that encrypt their data.
package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/ledgertest"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// Options give the tests additional access to a store. All are optional. A store on a server sets Clock,
// Reopen, Another and Raw, and Size if it can count bytes. A store in files also sets Full. A store in memory
// sets Clock and Raw.
type Options struct {
	// Reopen closes s and opens the same store again. It is nil for a store in memory.
	Reopen func(t *testing.T, s segno.Store) segno.Store
	// Another opens the store s a second time, as another process would.
	Another func(t *testing.T, s segno.Store) segno.Store
	// Size returns how many bytes the store occupies.
	Size func(t *testing.T, s segno.Store) int64
	// Raw returns all bytes that the store contains: files, rows, values.
	Raw func(t *testing.T, s segno.Store) []byte
	// Full makes writes to s fail with ENOSPC until the test calls end.
	Full func(t *testing.T, s segno.Store) (end func())
	// EarlyObjects is set for a store behind a network, in which objects may be readable before a commit or Keep.
	EarlyObjects bool
	// Clock is the clock that the stores read. The tests of expiry and collection need it.
	Clock *Clock
}

// Clock is a clock that only [Clock.Advance] moves. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that is set to a fixed time.
func NewClock() *Clock { return &Clock{now: epoch} }

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Test runs all subtests on a store, and those of a saver on that store. open returns a new, empty store,
// which Test closes. With -short, Test runs a sample of the subtests.
func Test(t *testing.T, open func(t *testing.T) segno.Store, o Options) { TestSome(t, 1, open, o) }

// TestSome runs every n-th subtest of [Test]; if SEGNO_SOAK is set, it runs all of them. It is for a second
// configuration of a store that Test covers. With -short, it runs every 4n-th subtest.
func TestSome(t *testing.T, n int, open func(t *testing.T) segno.Store, o Options) {
	if testing.Short() {
		n *= 4
	}
	if soak.IsWhole() {
		n = 1
	}
	groups, i := storeGroups(), 0
	for g := range groups {
		groups[g].tests = slices.DeleteFunc(slices.Clone(groups[g].tests), func(test) bool { i++; return i%n != 0 })
	}
	run(t, groups, func(t *testing.T) *fixture { return newFixture(t, open(t), o) })
	if n == 1 {
		t.Run("ledger", func(t *testing.T) { testLedger(t, open) })
	}
}

// testLedger runs the table of cases that every store and internal/store/ledger share: when a commit is admitted,
// and what the resulting state of its thread is.
func testLedger(t *testing.T, open func(t *testing.T) segno.Store) {
	first := open(t)
	_, keepsOperations := first.(segno.Workspaces)
	first.Close()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store {
		s := open(t)
		t.Cleanup(func() { s.Close() })
		return s
	}, keepsOperations)
}

// storeGroups returns the subtests of a store.
func storeGroups() []group {
	return append([]group{
		{"ownership", ownershipTests, nil}, {"ownership", secondStoreTests, needs{canOpenTwice}},
		{"commit", commitTests, nil}, {"line", lineTests, nil},
		{"list", listTests, nil}, {"list", phaseTests, nil}, {"list", reopenedPhaseTests, needs{canReopen}},
		{"ids", idTests, nil}, {"values", valueTests, nil},
		{"objects", objectTests, nil}, {"objects", sharedObjectTests, needs{canOpenTwice}},
		{"errors", errorTests, nil}, {"errors", fullDiskTests, needs{canFillDisk}},
		{"close", closeTests, nil}, {"reopen", reopenTests, needs{canReopen}},
		{"scale", costTests, nil}, {"scale", sizeTests, needs{hasSize}},
		{"watch", watchTests, needs{isWatcher}}, {"watch", otherWatchTests, needs{isWatcher, canOpenTwice}},
		{"wait", watchTests, nil}, {"wait", otherWatchTests, needs{canOpenTwice}},
		{"workspace", workspaceTests, needs{isWorkspaces}},
		{"rename", renameTests, needs{isRenamer}}, {"rename", reopenedRenameTests, needs{isRenamer, canReopen}},
		{"lease", leaseTests, needs{isLeaser}}, {"lease", otherLeaseTests, needs{isLeaser, canOpenTwice}},
		{"lease", expiryTests, needs{isLeaser, hasClock}},
		{"collect", collectTests, needs{isCollector, hasClock}}, {"retention", retentionTests, needs{isCollector, hasClock}},
		{"erase", eraseTests, needs{isEraser, hasRaw}}, {"erase", leasedEraseTests, needs{isEraser, isLeaser}},
	}, saverGroups()...)
}
