package kv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
)

const ttl = time.Hour

// expiringStore is a store with a TTL, with the Map under it and its clock.
type expiringStore struct {
	*testing.T
	*kv.Store
	under contractMap
	clock *storetest.Clock
}

func newExpiringStore(t *testing.T) *expiringStore {
	clock := storetest.NewClock()
	under := contractMap{kvtest.NewMap(clock.Now), t}
	return &expiringStore{t, mustOpen(t, under, kv.Options{TTL: ttl, Clock: clock.Now}), under, clock}
}

// contractMap checks that the store calls Batch according to its contract, and that the changes of
// a thread's group come last, because a cluster makes only those together.
type contractMap struct {
	*kvtest.Map
	t *testing.T
}

func (s contractMap) Batch(ctx context.Context, ops []kv.Op) ([]kv.Rev, error) {
	keys, own := map[string]bool{}, ""
	for _, o := range ops {
		group := kv.Group(o.Key)
		if keys[o.Key] {
			s.t.Errorf("%s is in a batch twice", o.Key)
		}
		if own != "" && group != own {
			s.t.Errorf("%s comes after the changes of the thread", o.Key)
		}
		if keys[o.Key] = true; strings.HasPrefix(group, "t{") {
			own = group
		}
	}
	return s.Map.Batch(ctx, ops)
}

// reopen opens the same store with an empty cache.
func (m *expiringStore) reopen() *kv.Store {
	m.Helper()
	return mustOpen(m, m.under, kv.Options{TTL: ttl, Clock: m.clock.Now})
}

func (m *expiringStore) commit(c segno.Commit) segno.Head {
	m.Helper()
	head, err := m.Commit(m.Context(), c)
	if err != nil {
		m.Fatal(err)
	}
	return head
}

// path loads a line, with entries, and returns its ids.
func (m *expiringStore) path(s *kv.Store, at segno.CommitID) (ids []segno.CommitID) {
	m.Helper()
	line, err := s.Load(m.Context(), at, segno.Window{Entries: true})
	if err != nil {
		m.Fatalf("loading %s: %v", at, err)
	}
	for _, n := range line.Commits {
		ids = append(ids, n.ID)
		if n.Checkpoint.Kind == segno.CheckpointTurn && len(n.Entries) != 1 {
			m.Fatalf("%s has lost its entries", n.ID)
		}
	}
	return ids
}

func (m *expiringStore) gone(at ...segno.CommitID) {
	m.Helper()
	for _, id := range at {
		if _, err := m.reopen().Load(m.Context(), id, segno.Window{}); segno.KindOf(err) != segno.KindNotFound || err == nil {
			m.Fatalf("loading %s of an expired thread: %v", id, err)
		}
	}
}

// keys returns all existing keys.
func (m *expiringStore) keys() (keys []string) {
	m.Helper()
	for item, err := range m.under.List(m.Context(), "", "", 0) {
		if err != nil {
			m.Fatal(err)
		}
		keys = append(keys, item.Key)
	}
	return keys
}

func TestImpossibleTTLs(t *testing.T) {
	for _, o := range []struct {
		in  kv.KV
		ttl time.Duration
	}{{plain(kvtest.NewMap(nil)), ttl}, {kvtest.NewMap(nil), -ttl}, {kvtest.NewMap(nil), time.Millisecond}} {
		if _, err := kv.Open(t.Context(), o.in, kv.Options{TTL: o.ttl}); segno.KindOf(err) != segno.KindInvalid {
			t.Fatalf("a TTL of %v: %v", o.ttl, err)
		}
	}
}

// TestAThreadExpiresWhole repeatedly commits after more than half the TTL, and checks the whole
// thread just before its end and at its end.
func TestAThreadExpiresWhole(t *testing.T) {
	m := newExpiringStore(t)
	head := m.commit(create("T", ""))
	first := turn(head, "turn 0")
	var err error
	if first.Staged, err = stage(t.Context(), m.Store, "named once, long ago"); err != nil {
		t.Fatal(err)
	}
	first.Checkpoint.State = &segno.Document{Type: "x/1", Data: segno.HashOf([]byte("named once, long ago"))}
	first.Link = &segno.Link{Session: "the session", Start: day}
	first.Entries[0].Body = []byte(`"` + incompressible(150_000) + `"`)
	head = m.commit(first)
	want := []segno.CommitID{"base of T", "turn 0"}
	for i := range 12 {
		m.clock.Advance(ttl * 3 / 4)
		head = m.commit(turn(head, fmt.Sprint("turn ", i+1)))
		want = append(want, head.Head)
	}
	m.clock.Advance(ttl - time.Nanosecond)
	s := m.reopen()
	for i, id := range want {
		if got := m.path(m.reopen(), id); !slices.Equal(got, want[:i+1]) {
			t.Fatalf("the line of %s is %v", id, got)
		}
	}
	if data, err := s.Objects().Get(t.Context(), segno.HashOf([]byte("named once, long ago"))); err != nil || string(data) != "named once, long ago" {
		t.Fatalf("the object is %q: %v", data, err)
	}
	for q, n := range map[segno.ThreadQuery]int{{}: 1, {Session: "the session"}: 1} {
		for _, err := range s.Threads(t.Context(), q) {
			if n--; err != nil {
				t.Fatal(err)
			}
		}
		if n != 0 {
			t.Fatalf("%+v misses %d threads", q, n)
		}
	}
	m.clock.Advance(time.Nanosecond)
	m.gone(want...)
	if _, err := m.Head(t.Context(), "T"); segno.KindOf(err) != segno.KindNotFound {
		t.Fatalf("the head of an expired thread: %v", err)
	}
	if _, err := m.Commit(t.Context(), turn(head, "too late")); segno.KindOf(err) != segno.KindNotFound {
		t.Fatalf("a commit to an expired thread: %v", err)
	}
	for x, err := range m.Threads(t.Context(), segno.ThreadQuery{}) {
		t.Fatalf("%v is listed: %v", x, err)
	}
	m.clock.Advance(2 * ttl)
	if keys := m.keys(); len(keys) > 0 {
		t.Fatalf("what is left of it: %v", keys)
	}
}

// TestIDsAreUsedAgain makes a thread again, with commits of the old ids, when the first thread has
// expired and its look-ups have not.
func TestIDsAreUsedAgain(t *testing.T) {
	m := newExpiringStore(t)
	head := m.commit(create("T", ""))
	for _, id := range []string{"a", "b", "c"} {
		head = m.commit(turn(head, id))
	}
	pin := segno.Commit{ID: "pin", Thread: "T", Expect: head.Head, Pin: &segno.Pin{Checkpoint: "b", Name: "old"}}
	m.commit(pin)
	m.clock.Advance(ttl)
	head = m.commit(create("T", ""))
	head = m.commit(turn(head, "c"))
	head = m.commit(turn(head, "a"))
	if got := m.path(m.reopen(), head.Head); !slices.Equal(got, []segno.CommitID{"base of T", "c", "a"}) {
		t.Fatalf("the line is %v", got)
	}
	m.gone("b", "pin")
	for c, err := range m.Checkpoints(t.Context(), segno.CheckpointQuery{Pinned: true}) {
		t.Fatalf("%v is pinned: %v", c, err)
	}
	other := create("elsewhere", "")
	other.ID = "b"
	m.commit(other)
}

func TestAForkOutlivesItsSource(t *testing.T) {
	m := newExpiringStore(t)
	head := m.commit(create("T", ""))
	long := turn(head, "one")
	long.Entries[0].Body = []byte(`"` + incompressible(150_000) + `"`)
	var err error
	if long.Staged, err = stage(t.Context(), m.Store, "the state"); err != nil {
		t.Fatal(err)
	}
	long.Checkpoint.State = &segno.Document{Type: "x/1", Data: segno.HashOf([]byte("the state"))}
	head = m.commit(long)
	two := m.commit(turn(head, "two"))
	m.commit(turn(two, "not in the fork"))
	fork := m.commit(create("F", "two"))
	fork = m.commit(turn(fork, "three"))
	m.clock.Advance(ttl * 3 / 4)
	fork = m.commit(turn(fork, "four"))
	m.clock.Advance(ttl * 3 / 4)
	if _, err := m.Head(t.Context(), "T"); segno.KindOf(err) != segno.KindNotFound {
		t.Fatalf("the source is still there: %v", err)
	}
	want := []segno.CommitID{"base of T", "one", "two", "base of F", "three", "four"}
	for range 5 {
		fork = m.commit(turn(fork, fmt.Sprint("turn ", fork.Seq)))
		want = append(want, fork.Head)
		for i, id := range want {
			if got := m.path(m.reopen(), id); !slices.Equal(got, want[:i+1]) {
				t.Fatalf("the line of %s is %v", id, got)
			}
		}
		m.clock.Advance(ttl * 3 / 4)
	}
	m.gone("not in the fork")
	if _, err := m.reopen().Objects().Get(t.Context(), segno.HashOf([]byte("the state"))); err != nil {
		t.Fatal(err)
	}
	line, err := m.reopen().Load(t.Context(), fork.Head, segno.Window{})
	if err != nil {
		t.Fatal(err)
	}
	if n := line.Commits[1]; n.Thread != "T" || n.Seq != 2 || n.Checkpoint.State == nil {
		t.Fatalf("what was inherited is %+v", n)
	}
	back := m.commit(segno.Commit{ID: "undo", Thread: "F", Expect: fork.Head, Move: &segno.Move{Head: "one", Tip: fork.Tip}})
	back = m.commit(turn(back, "from there"))
	if got := m.path(m.reopen(), back.Head); !slices.Equal(got, []segno.CommitID{"base of T", "one", "from there"}) {
		t.Fatalf("a line from what was inherited is %v", got)
	}
	of := m.commit(create("G", "turn 4"))
	m.clock.Advance(ttl - 1)
	m.commit(turn(of, "last"))
	m.clock.Advance(ttl - 1)
	if got := m.path(m.reopen(), "last"); len(got) != 10 || got[0] != "base of T" {
		t.Fatalf("the line of a fork of the fork is %v", got)
	}
	m.gone("from there")
}
