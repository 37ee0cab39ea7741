package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// TestLocked makes another process hold the store's lock. Readers must continue, writers must wait
// until their deadline, and nothing may be written.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "thread", 1)
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	headOf(t, s, "thread")
	before := read(t, logOf(dir, "thread"))
	other, err := os.Open(filepath.Join(dir, "lock"))
	must(t, err)
	must(t, unix.Flock(int(other.Fd()), unix.LOCK_EX))

	if got := headOf(t, s, "thread"); got != head {
		t.Fatalf("the head is %v instead of %v", got, head)
	}
	if _, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Commit(ctx, turnCommit(head, 2))
	wantKind(t, err, segno.KindCancelled)
	s.disk.wait = 20 * time.Millisecond
	_, err = s.Commit(t.Context(), turnCommit(head, 2))
	wantKind(t, err, segno.KindBusy)
	if after := read(t, logOf(dir, "thread")); string(after) != string(before) {
		t.Fatal("the log was written to")
	}

	s.disk.wait = lockWait
	waits := make(chan error)
	go func() {
		_, err := s.Commit(t.Context(), turnCommit(head, 2))
		waits <- err
	}()
	must(t, other.Close())
	must(t, <-waits)
}

// TestOneCreatesTheThread creates the same threads through several stores concurrently. One of them
// must create each thread, and the others must get its head.
func TestOneCreatesTheThread(t *testing.T) {
	dir := t.TempDir()
	const openings, threads = 4, 20
	won := make(chan segno.Head, openings*threads)
	lost := make(chan segno.Head, openings*threads)
	var group sync.WaitGroup
	for i := range openings {
		s := open(t, dir, Options{FS: noSync{vfs.OS}})
		defer closeStore(t, s)
		group.Go(func() {
			for n := range threads {
				c := baseCommit(fmt.Sprint("thread ", n))
				c.ID = segno.CommitID(fmt.Sprint(n, " of ", i))
				head, err := s.Commit(t.Context(), c)
				var late *segno.ConflictError
				switch {
				case err == nil:
					won <- head
				case errors.As(err, &late):
					lost <- late.Actual
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	close(won)
	close(lost)
	heads := map[segno.Head]bool{}
	for head := range won {
		heads[head] = true
	}
	if len(heads) != threads {
		t.Fatalf("%d were made", len(heads))
	}
	for head := range lost {
		if !heads[head] {
			t.Fatalf("%v is no head that was made", head)
		}
	}
	strays, err := filepath.Glob(filepath.Join(dir, "threads", ".*"))
	if err != nil || len(strays) > 0 {
		t.Fatal(strays, err)
	}
}
