package file

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/storerig"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/google/go-cmp/cmp"
)

// work is the program of the fault tests, step by step. Each step can be repeated.
var work = []func(t *testing.T, s *Store) error{
	func(t *testing.T, s *Store) error { _, err := s.Commit(t.Context(), baseCommit("a")); return err },
	func(t *testing.T, s *Store) error { return commitObjects(t, s) },
	func(t *testing.T, s *Store) error {
		fork := baseCommit("b")
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
			c := turnCommit(head, 2)
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
			return nil // it was deleted although Delete returned an error
		}
		return err
	},
}

var faultObjects = [][]byte{[]byte("a small object"), make([]byte, ledger.MaxInline+1), []byte("another")}

func commitObjects(t *testing.T, s *Store) error {
	b := s.Objects().Batch()
	defer b.Close()
	c := turnCommit(segno.Head{Thread: "a", Head: "base of a"}, 1)
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

// outcome is everything that a reader can read.
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

// TestFaults fails each operation on the disk, either only that one or all from it on. The call must
// return an error, the store must be in the state before or after the step, and the same step must
// succeed when it is repeated.
func TestFaults(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	var want []any // the outcome after each step
	s := open(t, t.TempDir(), Options{FS: noSync{vfs.OS}})
	want = append(want, outcome(t, s))
	for _, step := range work {
		if err := step(t, s); err != nil {
			t.Fatal(err)
		}
		want = append(want, outcome(t, s))
	}
	closeStore(t, s)
	for n := 0; failAt(t, n, false, want); n++ {
	}
	for n := 0; failAt(t, n, true, want); n += 2 {
	}
}

func failAt(t *testing.T, n int, forever bool, want []any) (fired bool) {
	dir := filepath.Join(t.TempDir(), "store")
	faults := faultfs.FailAt(n)
	faults.Forever = forever
	s := open(t, dir, Options{FS: faults.Wrap(noSync{vfs.OS})})
	at, err := 0, error(nil)
	for at < len(work) {
		if err = work[at](t, s); err != nil {
			break
		}
		at++
	}
	if faults.Fired() && err == nil {
		t.Fatalf("operation %d (%s) failed and no call returned an error", n, faults.Trace()[n])
	}
	if err != nil && (segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC)) {
		t.Fatalf("operation %d (%s): %v", n, faults.Trace()[n], err)
	}
	closeStore(t, s)
	s = open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
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
	if errs := readErrors(t, s); len(errs) > 0 {
		t.Fatalf("operation %d, done again: %v", n, errs)
	}
	return faults.Fired()
}

// TestOrder verifies the order in which the parts of a commit become durable: objects before the log
// that names them, and a complete thread before it gets its name.
func TestOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	faults := faultfs.FailAt(-1)
	s := open(t, dir, Options{FS: faults.Wrap(noSync{vfs.OS})})
	defer closeStore(t, s)
	seen := 0
	trace := func() string {
		all := faults.Trace()[seen:]
		seen += len(all)
		return regexp.MustCompile(`\.segno-\w+`).ReplaceAllString(strings.Join(all, "\n"), ".new")
	}
	head := mustCommit(t, s, baseCommit("a"))
	_, first, _ := strings.Cut(trace(), "mkdir: threads\nsyncdir: store\n")
	if diff := cmp.Diff(`create: lock
create: log.jsonl
mkdir: a
syncdir: threads
create: log.jsonl
write: log.jsonl
sync: log.jsonl
syncdir: a
create: changes
write: changes`, first); diff != "" {
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
	c := turnCommit(head, 1)
	c.Staged = staged
	head = mustCommit(t, s, c)
	if diff := cmp.Diff(`create: lock
create: log.jsonl
mkdir: objects
syncdir: store
mkdir: 3a
syncdir: objects
create: .new
write: .new
sync: .new
rename: 3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7
syncdir: 3a
write: log.jsonl
sync: log.jsonl
create: changes
write: changes`, trace()); diff != "" {
		t.Error(diff)
	}
	mustCommit(t, s, turnCommit(head, 2))
	if diff := cmp.Diff("create: lock\ncreate: log.jsonl\nwrite: log.jsonl\nsync: log.jsonl\ncreate: changes\nwrite: changes", trace()); diff != "" {
		t.Error(diff)
	}
}

// TestAReaderSyncsUnannouncedRecords reads a record that another process wrote but did not announce.
// The record must be durable before the reader returns it.
func TestAReaderSyncsUnannouncedRecords(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "a", 1)
	for n := range 4 {
		must(t, os.Remove(filepath.Join(dir, "changes")))
		faults := faultfs.FailAt(n)
		s := open(t, dir, Options{FS: faults.Wrap(noSync{vfs.OS})})
		_, err := s.Head(t.Context(), "a")
		wantKind(t, err, segno.KindIO)
		if got := headOf(t, s, "a"); got != head {
			t.Fatalf("the head is %v instead of %v", got, head)
		}
		want := []string{"create: lock", "sync: log.jsonl", "syncdir: a", "syncdir: threads", "create: changes", "write: changes"}
		if diff := cmp.Diff(want, faults.Trace()[len(faults.Trace())-len(want):]); diff != "" {
			t.Fatal(diff)
		}
		before := len(faults.Trace())
		headOf(t, s, "a")
		if got := len(faults.Trace()); got != before {
			t.Fatalf("%d operations: a record that is durable is synced again", got-before)
		}
		closeStore(t, s)
	}
}

func TestEraseFaults(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	storerig.EraseFaults(t, false, func(t *testing.T, dir string, fsys vfs.FS) segno.Store { return open(t, dir, Options{FS: fsys}) }, rawFiles)
}
