package file

import (
	"bufio"
	"context"
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
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/testing/soak"
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
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out), &stderr
}

// commitUntilKilled commits turns with objects, some of them large, and sometimes to a new thread.
// It prints the id of each commit once the commit is acknowledged.
func commitUntilKilled(ctx context.Context, dir string) error {
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	head, err := s.Head(ctx, "thread")
	if segno.KindOf(err) == segno.KindNotFound {
		head, err = s.Commit(ctx, baseCommit("thread"))
	}
	for i := 0; err == nil; i++ {
		b := s.Objects().Batch()
		data := fmt.Appendf(nil, "object %d %d", i, r.Uint64())
		if i%4 == 3 {
			data = append(data, make([]byte, ledger.MaxInline)...)
		}
		name, err := b.Put(ctx, data)
		if err != nil {
			return err
		}
		staged, err := b.Stage(ctx)
		if err != nil {
			return err
		}
		c := stepCommit(head, message(r, i))
		c.Staged, c.Needs = staged, []segno.Hash{name}
		c.Checkpoint.State = &segno.Document{Type: "test/1", Data: name}
		if i%5 == 4 { // a fork
			c.Thread, c.Expect = segno.ThreadID(c.ID), ""
			c.Create = &segno.Thread{ID: c.Thread, Parent: c.Parent}
		}
		now, err := s.Commit(ctx, c)
		if err != nil {
			return err
		}
		fmt.Println(c.ID)
		if c.Create == nil {
			head = now
		}
	}
	return err
}

// TestKilled kills a process that commits, at a random moment. Every acknowledged commit must be in
// the store, and nothing may be damaged.
func TestKilled(t *testing.T) {
	rounds := soak.Count(t, 4, 2000)
	const each = 10 // rounds on one store
	var dir string
	r := rand.New(rand.NewPCG(soak.Seed(t), 0))
	var acknowledged []segno.CommitID
	total := 0
	for round := range rounds {
		if round%each == 0 {
			dir, acknowledged = filepath.Join(t.TempDir(), fmt.Sprint(round)), nil
		}
		cmd, out, stderr := child(t, dir, "commit")
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
		if stderr.Len() > 0 {
			t.Fatalf("round %d: the process printed: %s", round, stderr)
		}
		verify(t, dir, acknowledged)
	}
	if total == 0 {
		t.Fatal("nothing was ever acknowledged")
	}
	t.Logf("%d kills, %d acknowledged commits", rounds, total)
}

// verify loads each acknowledged commit with its object, and commits again.
func verify(t *testing.T, dir string, acknowledged []segno.CommitID) {
	t.Helper()
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	if errs := readErrors(t, s); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, id := range acknowledged {
		line, err := s.Load(t.Context(), id, segno.Window{Last: 1, Entries: true})
		if err != nil {
			t.Fatalf("commit %s was acknowledged: %v", id, err)
		}
		if n := line.Commits[0]; len(n.Entries) != 1 {
			t.Fatalf("commit %s has %d entries", id, len(n.Entries))
		} else if _, err := s.Objects().Get(t.Context(), n.Checkpoint.State.Data); err != nil {
			t.Fatalf("the object of commit %s: %v", id, err)
		}
	}
	if len(acknowledged) > 0 {
		head := headOf(t, s, "thread")
		mustCommit(t, s, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Expect: head.Head, Pin: &segno.Pin{Checkpoint: head.Head}})
	}
}

const (
	racers    = 4
	raceTurns = 25 // for each goroutine
)

// raceOnHead commits on the head from several goroutines until each has succeeded often enough, and
// prints the ids of their commits.
func raceOnHead(ctx context.Context, dir string) error {
	s, err := Open(ctx, dir, Options{})
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
	seed(t, dir, "thread", 0)
	var won []segno.CommitID
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 2 {
		cmd, out, stderr := child(t, dir, "race")
		group.Go(func() {
			for out.Scan() {
				mu.Lock()
				won = append(won, segno.CommitID(out.Text()))
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, stderr)
			}
		})
	}
	group.Wait()
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	head := headOf(t, s, "thread")
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
}
