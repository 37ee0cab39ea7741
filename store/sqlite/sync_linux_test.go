package sqlite

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// TestACommitThatIsNotSyncedIsAnError has a log that accepts every write and cannot be synced: its file is replaced by
// /dev/null. The commit then returns an error, and is made once the log can be synced.
func TestACommitThatIsNotSyncedIsAnError(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	head, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	c := segno.Commit{ID: "next", Thread: "thread", Parent: head.Head, Expect: head.Head, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}}
	restore := replaceFiles(t, s.Path()+"-wal", "/dev/null")
	if _, err := s.Commit(t.Context(), c); segno.KindOf(err) != segno.KindIO {
		t.Errorf("a commit without a sync: %v", err)
	}
	restore()
	if now, err := s.Head(t.Context(), "thread"); err != nil || now.Head != head.Head {
		t.Errorf("the head is %s, %v", now.Head, err)
	}
	if _, err := s.Commit(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestACommitWritesAFrameWithOneCall counts the system calls that write. A step has seven frames or more, and SQLite makes two
// calls for each.
func TestACommitWritesAFrameWithOneCall(t *testing.T) {
	const n = 20
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	head := mustCommit(t, s, segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	before := writesOf(t)
	for i, e := range steps(n) {
		head = mustCommit(t, s, stepCommit(head, e, i))
	}
	if calls := writesOf(t) - before; calls > 12*n { // the runtime writes, too
		t.Errorf("%d commits made %d calls", n, calls)
	}
}

// writesOf returns how many system calls of this process have written.
func writesOf(t *testing.T) (n int) {
	t.Helper()
	counts, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("this kernel does not count:", err)
	}
	_, after, _ := strings.Cut(string(counts), "syscw: ")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOnlyABatchedCommitIsNotSynced writes while the log cannot be synced, as above. A batched commit succeeds, so it does
// not sync the log. A synced commit and another write after a batched commit fail, so they do.
func TestOnlyABatchedCommitIsNotSynced(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	head := mustCommit(t, s, segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}, Durability: segno.Batched})
	turn := func(id segno.CommitID, d segno.Durability) segno.Commit {
		return segno.Commit{ID: id, Thread: "thread", Parent: head.Head, Expect: head.Head, Durability: d,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}}
	}
	for name, write := range map[string]func() error{
		"a synced commit": func() error { _, err := s.Commit(t.Context(), turn("synced", segno.Synced)); return err },
		"a deletion":      func() error { return s.Delete(t.Context(), "thread") },
	} {
		restore := replaceFiles(t, s.Path()+"-wal", "/dev/null")
		if err := write(); segno.KindOf(err) != segno.KindIO {
			t.Errorf("%s: %v", name, err)
		}
		restore()
		head = mustCommit(t, s, turn(segno.CommitID("after "+name), segno.Batched))
	}
	restore := replaceFiles(t, s.Path()+"-wal", "/dev/null")
	if _, err := s.Commit(t.Context(), turn("batched", segno.Batched)); err != nil {
		t.Errorf("a batched commit: %v", err)
	}
	restore()
}

// endingContext ends when Done is called for the n-th time.
type endingContext struct {
	context.Context
	end  context.CancelFunc
	left atomic.Int32
}

func (c *endingContext) Done() <-chan struct{} {
	if c.left.Add(-1) < 0 {
		c.end()
	}
	return c.Context.Done()
}

// TestASyncedWriteAfterAnEndedContext begins batched commits whose contexts end at each moment. The next write of the connection
// is synced.
func TestASyncedWriteAfterAnEndedContext(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	for n := range int32(20) {
		inner, end := context.WithCancel(t.Context())
		ctx := &endingContext{Context: inner, end: end}
		ctx.left.Store(n)
		_ = s.withWriter(ctx, segno.Batched, "write", "", func(context.Context, *conn) error { return nil })
		end()
		err := s.withWriter(t.Context(), segno.Synced, "write", "", func(ctx context.Context, c *conn) error {
			level := 0
			if err := c.sql.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil || level != 2 {
				t.Errorf("a context that ends at the call %d of Done: synchronous is %d, %v, want 2", n, level, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// replaceFiles makes each descriptor of this process that has the file name refer to another file. restore undoes this.
func replaceFiles(t *testing.T, name, other string) (restore func()) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	replacement, err := os.OpenFile(other, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer replacement.Close()
	saved := map[int]int{}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil {
			t.Fatal(err)
		}
		if target, _ := os.Readlink("/proc/self/fd/" + e.Name()); target != name {
			continue
		}
		if saved[fd], err = unix.Dup(fd); err == nil {
			err = unix.Dup3(int(replacement.Fd()), fd, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(saved) == 0 {
		t.Fatalf("%s is not open", name)
	}
	return func() {
		for fd, original := range saved {
			if err := unix.Dup3(original, fd, unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			unix.Close(original)
		}
	}
}
