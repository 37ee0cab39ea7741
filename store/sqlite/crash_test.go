package sqlite

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"golang.org/x/sys/unix"
)

// child starts this test binary as another process on a store.
func child(t *testing.T, dir, work string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childWork+"="+work)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out), &said
}

// bulk returns random data that is too large for a transaction.
func bulk(r *rand.Rand) []byte {
	data := make([]byte, 1100<<10)
	for i := 0; i+8 <= len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	return data
}

func commitUntilKilled(ctx context.Context, dir string) error {
	return commitTurns(ctx, dir, segno.Synced)
}

func batchUntilKilled(ctx context.Context, dir string) error {
	return commitTurns(ctx, dir, segno.Batched)
}

// commitTurns commits turns until the process is killed, some with packs, some on new lines, and prints the id of each
// after it is acknowledged.
func commitTurns(ctx context.Context, dir string, d segno.Durability) error {
	s, err := openDir(ctx, dir, Options{})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	head, err := s.Head(ctx, "thread")
	if segno.KindOf(err) == segno.KindNotFound {
		head, err = s.Commit(ctx, segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	}
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		b := s.Objects().Batch()
		data := fmt.Appendf(nil, "object %d %d", i, r.Uint64())
		if i%4 == 3 {
			data = bulk(r)
		}
		name, err := b.Put(ctx, data)
		if err != nil {
			return err
		}
		staged, err := b.Stage(ctx)
		if err != nil {
			return err
		}
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged,
			Durability: d, Needs: []segno.Hash{name},
			Entries: []segno.Entry{step(r, i)},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, State: &segno.Document{Type: "test/1",
				Data: name}}}
		if i%5 == 4 {
			c.Parent = "base"
		}
		if head, err = s.Commit(ctx, c); err != nil {
			return err
		}
		fmt.Println(c.ID)
	}
}

// TestKilled kills a committing process at random moments. Each acknowledged commit must exist, also those of the
// rounds with batched commits, and nothing may be damaged.
func TestKilled(t *testing.T) {
	rounds := soak.Count(t, 4, 2000)
	const each = 20 // rounds on one store
	var dir string
	r := rand.New(rand.NewPCG(soak.Seed(t), 0))
	var acknowledged []segno.CommitID
	total := 0
	for round := range rounds {
		if round%each == 0 {
			dir, acknowledged = filepath.Join(t.TempDir(), fmt.Sprint(round)), nil
		}
		cmd, out, said := child(t, dir, []string{"commit", "batch"}[round%2])
		// Kill some processes after an acknowledgement, and some while they open the store.
		var timer *time.Timer
		kill := func() { cmd.Process.Kill() }
		if round%3 == 0 {
			timer = time.AfterFunc(time.Duration(r.IntN(40))*time.Millisecond, kill)
		}
		left := 1 + r.IntN(25)
		for out.Scan() {
			acknowledged = append(acknowledged, segno.CommitID(out.Text()))
			total++
			if left--; left == 0 {
				kill()
			}
		}
		cmd.Wait() // the kill is the error
		if timer != nil {
			timer.Stop()
		}
		if said.Len() > 0 {
			t.Fatalf("round %d: the process said: %s", round, said)
		}
		if len(acknowledged) > 0 {
			verify(t, dir, acknowledged)
		}
	}
	if total == 0 {
		t.Fatal("nothing was ever acknowledged")
	}
	t.Logf("%d kills, %d acknowledged commits", rounds, total)
}

func verify(t *testing.T, dir string, acknowledged []segno.CommitID) {
	t.Helper()
	s := openIn(t, dir, Options{})
	defer s.Close()
	head, err := s.Head(t.Context(), "thread")
	if err != nil {
		t.Fatal(err)
	}
	all := map[segno.CommitID]bool{}
	var newest segno.Checkpoint
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: "thread"}) {
		if err != nil {
			t.Fatal(err)
		}
		if all[c.ID] = true; c.Seq > newest.Seq {
			newest = c
		}
	}
	for _, id := range acknowledged {
		if !all[id] {
			t.Fatalf("commit %s was acknowledged and is gone", id)
		}
	}
	// After the newest acknowledged commit, there may be one commit for each kill whose acknowledgement was
	// lost. The head must be the last of them.
	if head.Head != newest.ID || head.Seq != newest.Seq {
		t.Fatalf("the head is %s, %d; the newest commit is %s, %d", head.Head, head.Seq, newest.ID, newest.Seq)
	}
	checkClean(t, s)
}

func checkClean(t *testing.T, s *Store) segno.Checked {
	t.Helper()
	done, err := s.Check(t.Context(), segno.CheckPolicy{}, func(err error) bool {
		t.Errorf("check: %v", err)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

const (
	racers    = 4
	raceTurns = 25 // for each goroutine
)

// raceOnHead commits on the head from several goroutines until each has succeeded often enough, and prints the
// ids of their commits.
func raceOnHead(ctx context.Context, dir string) error {
	s, err := openDir(ctx, dir, Options{})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, racers)
	for i := range racers {
		group.Go(func() { errs[i] = raceOne(ctx, s) })
	}
	group.Wait()
	return errors.Join(append(errs, s.Close())...)
}

func raceOne(ctx context.Context, s *Store) error {
	head, err := s.Head(ctx, "thread")
	for won := 0; won < raceTurns && err == nil; {
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Parent: head.Head, Expect: head.Head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1}}
		head, err = s.Commit(ctx, c)
		var late *segno.ConflictError
		switch {
		case err == nil:
			won++
			fmt.Println(c.ID)
		case errors.As(err, &late):
			head, err = late.Actual, nil
		}
	}
	return err
}

// TestTwoProcesses makes two processes with four writers each commit on one head.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir, Options{})
	defer s.Close()
	if _, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}); err != nil {
		t.Fatal(err)
	}
	var won []segno.CommitID
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 2 {
		cmd, out, said := child(t, dir, "race")
		group.Go(func() {
			for out.Scan() {
				mu.Lock()
				won = append(won, segno.CommitID(out.Text()))
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
	group.Wait()
	head, err := s.Head(t.Context(), "thread")
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.Load(t.Context(), head.Head, segno.Window{})
	if err != nil {
		t.Fatal(err)
	}
	var path []segno.CommitID
	for _, n := range line.Commits[1:] {
		path = append(path, n.ID)
	}
	slices.Sort(path)
	slices.Sort(won)
	if len(won) != 2*racers*raceTurns || !slices.Equal(path, won) {
		t.Fatalf("%d commits were won and %d are on the line", len(won), len(path))
	}
	if head.Seq != int64(len(won)+1) || head.Turn != len(won) {
		t.Fatalf("seq %d, turn %d after %d commits", head.Seq, head.Turn, len(won))
	}
	checkClean(t, s)
}

// printLock prints whether another process holds a lock on the database file.
func printLock(_ context.Context, dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock)
	fmt.Println(lock.Type != unix.F_UNLCK)
	return err
}

// TestOpenedTwice verifies that a process that opens the same store twice keeps the lock of the first opening.
// SQLite removes the log of a database only if no other process has that lock.
func TestOpenedTwice(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	s := openIn(t, dir, Options{})
	defer s.Close()
	for _, readOnly := range []bool{false, true} {
		if err := openIn(t, dir, Options{ReadOnly: readOnly}).Close(); err != nil {
			t.Fatal(err)
		}
		cmd, out, stderr := child(t, dir, "lock")
		out.Scan()
		if err := cmd.Wait(); err != nil || out.Text() != "true" {
			t.Errorf("the database is locked: %s; want true (%v, %s)", out.Text(), err, stderr)
		}
	}
}
