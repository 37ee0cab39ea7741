package file

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// work is what the fault tests do, step by step. Each step can be done again.
var work = []func(t *testing.T, s *Store) error{
	func(t *testing.T, s *Store) error { _, err := s.Commit(t.Context(), baseOf("a")); return err },
	func(t *testing.T, s *Store) error { return commitObjects(t, s) },
	func(t *testing.T, s *Store) error {
		fork := baseOf("b")
		fork.Parent = "with objects"
		_, err := s.Commit(t.Context(), fork)
		return err
	},
	func(t *testing.T, s *Store) error {
		_, err := s.Acquire(t.Context(), segno.Lease{Thread: "a", Owner: "me", Expires: time.Now().Add(time.Hour)})
		return err
	},
	func(t *testing.T, s *Store) error {
		head, err := s.Head(t.Context(), "a")
		if err == nil {
			c := turnOf(head, 2)
			c.Parent, c.Expect = "with objects", "with objects"
			_, err = s.Commit(t.Context(), c)
		}
		return err
	},
	func(t *testing.T, s *Store) error {
		return s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: "w", Path: "/w"})
	},
	func(t *testing.T, s *Store) error {
		err := s.Delete(t.Context(), "b")
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			return nil // it was done, though it said otherwise
		}
		return err
	},
}

var faultObjects = [][]byte{[]byte("a small object"), make([]byte, mostInline+1), []byte("another")}

func commitObjects(t *testing.T, s *Store) error {
	b := s.Objects().Batch()
	defer b.Close()
	c := turnOf(segno.Head{Thread: "a", Head: "base of a"}, 1)
	c.ID = "with objects"
	for _, data := range faultObjects {
		name, err := b.Put(t.Context(), data)
		if err != nil {
			return err
		}
		c.Needs = append(c.Needs, name)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		return err
	}
	c.Staged = staged
	_, err = s.Commit(t.Context(), c)
	return err
}

// outcome is what a reader sees.
func outcome(t *testing.T, s *Store) (all struct {
	Threads []segno.ThreadID
	Paths   []string // of workspaces
	Seq     int64
	Line    []segno.Node
	Epoch   uint64
}) {
	t.Helper()
	var err error
	if all.Threads, err = threadsOf(t, s); err != nil {
		t.Fatal(err)
	}
	for w, err := range s.FindWorkspaces(t.Context(), nil, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all.Paths = append(all.Paths, w.Path)
	}
	head, err := s.Head(t.Context(), "a")
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return all
	}
	if err != nil {
		t.Fatal(err)
	}
	all.Seq, all.Epoch = head.Seq, head.Epoch
	line, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	all.Line = line.Commits
	return all
}

// TestFaults fails each operation, one at a time and from it on. Afterwards the
// store is the one before the step or the one after it, somebody was told, and the
// same work goes through when it is done again.
func TestFaults(t *testing.T) {
	var want []any // after each step
	s := open(t, t.TempDir(), Options{FS: quick{vfs.OS}})
	want = append(want, outcome(t, s))
	for _, step := range work {
		if err := step(t, s); err != nil {
			t.Fatal(err)
		}
		want = append(want, outcome(t, s))
	}
	shut(t, s)
	for n := 0; failAt(t, n, false, want); n++ {
	}
	for n := 0; failAt(t, n, true, want); n += 2 {
	}
}

func failAt(t *testing.T, n int, forever bool, want []any) (fired bool) {
	dir := filepath.Join(t.TempDir(), "store")
	faults := faultfs.FailAt(n)
	faults.Forever = forever
	s := open(t, dir, Options{FS: faults.Wrap(quick{vfs.OS})})
	at, err := 0, error(nil)
	for at < len(work) {
		if err = work[at](t, s); err != nil {
			break
		}
		at++
	}
	if faults.Fired() && err == nil {
		t.Fatalf("operation %d (%s) failed and nobody was told", n, faults.Trace()[n])
	}
	if err != nil && (segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC)) {
		t.Fatalf("operation %d (%s): %v", n, faults.Trace()[n], err)
	}
	shut(t, s)
	s = open(t, dir, Options{FS: quick{vfs.OS}})
	defer shut(t, s)
	got := outcome(t, s)
	if old := cmp.Diff(want[at], any(got)); old != "" {
		if at == len(work) {
			t.Fatal(old)
		}
		if diff := cmp.Diff(want[at+1], any(got)); diff != "" {
			t.Fatalf("operation %d (%s): neither the old state:\n%s\nnor the new one:\n%s", n, faults.Trace()[n], old, diff)
		}
	}
	for ; at < len(work); at++ {
		if err := work[at](t, s); err != nil {
			t.Fatalf("operation %d (%s), step %d again: %v", n, faults.Trace()[n], at, err)
		}
	}
	if diff := cmp.Diff(want[len(work)], any(outcome(t, s))); diff != "" {
		t.Fatalf("operation %d, done again:\n%s", n, diff)
	}
	if said := complaints(t, s); len(said) > 0 {
		t.Fatalf("operation %d, done again: %v", n, said)
	}
	return faults.Fired()
}

// TestOrder is the order of what makes a commit durable: objects before the log
// that names them, a thread whole before it has its name.
func TestOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	faults := faultfs.FailAt(-1)
	s := open(t, dir, Options{FS: faults.Wrap(quick{vfs.OS})})
	defer shut(t, s)
	seen := 0
	trace := func() string {
		all := faults.Trace()[seen:]
		seen += len(all)
		return regexp.MustCompile(`\.new-\w+`).ReplaceAllString(strings.Join(all, "\n"), ".new")
	}
	head := mustCommit(t, s, baseOf("a"))
	_, first, _ := strings.Cut(trace(), "mkdir: threads\nsyncdir: store\n")
	if diff := cmp.Diff(`create: log.jsonl
create: changes
write: changes
mkdir: .new
create: log.jsonl
write: log.jsonl
sync: log.jsonl
syncdir: .new
create: head.jsonl
write: head.jsonl
rename: a
syncdir: threads`, first); diff != "" {
		t.Error(diff)
	}
	b := s.Objects().Batch()
	if _, err := b.Put(t.Context(), []byte("data")); err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := turnOf(head, 1)
	c.Staged = staged
	head = mustCommit(t, s, c)
	if diff := cmp.Diff(`create: log.jsonl
mkdir: objects
syncdir: store
mkdir: 3a
syncdir: objects
create: .new
write: .new
sync: .new
rename: 3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7
syncdir: 3a
write: changes
write: log.jsonl
sync: log.jsonl
create: head.jsonl
write: head.jsonl`, trace()); diff != "" {
		t.Error(diff)
	}
	mustCommit(t, s, turnOf(head, 2))
	if diff := cmp.Diff("create: log.jsonl\nwrite: changes\nwrite: log.jsonl\nsync: log.jsonl\ncreate: head.jsonl\nwrite: head.jsonl", trace()); diff != "" {
		t.Error(diff)
	}
}

// TestAReaderMakesSure reads what another process wrote and may not have synced: it
// tells nobody before that is durable.
func TestAReaderMakesSure(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "a", 1)
	for n := range 2 {
		faults := faultfs.FailAt(n)
		s := open(t, dir, Options{FS: faults.Wrap(quick{vfs.OS})})
		_, err := s.Head(t.Context(), "a")
		wantKind(t, err, segno.KindIO)
		if got := headOf(t, s, "a"); got != head {
			t.Fatalf("the head is %v instead of %v", got, head)
		}
		if diff := cmp.Diff([]string{"sync: log.jsonl", "syncdir: threads"}, faults.Trace()[len(faults.Trace())-2:]); diff != "" {
			t.Fatal(diff)
		}
		headOf(t, s, "a")
		if got := len(faults.Trace()); got != n+3 {
			t.Fatalf("%d operations: what is known to be durable is synced again", got)
		}
		other := open(t, dir, Options{FS: quick{vfs.OS}})
		head = mustCommit(t, other, turnOf(head, n+1))
		shut(t, other)
		headOf(t, s, "a")
		if diff := cmp.Diff([]string{"sync: log.jsonl"}, faults.Trace()[n+3:]); diff != "" {
			t.Fatal(diff)
		}
		shut(t, s)
	}
}

func TestEraseFaults(t *testing.T) {
	storetest.EraseFaults(t, func(t *testing.T, dir string, fsys vfs.FS) segno.Store { return open(t, dir, Options{FS: fsys}) }, rawFiles)
}
