package postgres

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ownServer starts a server that a test may kill.
func ownServer(t *testing.T) *serverrig.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	own, err := serverrig.Postgres(ctx, "", serverrig.PostgresNoSync()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	return own
}

// turn returns a commit with an object and a body that contain the commit's id.
func turn(ctx context.Context, s *Store, head segno.Head, id segno.CommitID) (segno.Commit, error) {
	b := s.Objects().Batch()
	defer b.Close()
	name, err := b.Put(ctx, []byte("object of "+id))
	if err != nil {
		return segno.Commit{}, err
	}
	staged, err := b.Stage(ctx)
	if err != nil {
		return segno.Commit{}, err
	}
	body, err := json.Marshal("said in " + string(id))
	return segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Staged: staged,
		Entries: []segno.Entry{{Kind: segno.EntryMessage, Body: body}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Key: segno.TurnKey("key of " + id),
			State: &segno.Document{Type: "test/1", Data: name}}}, err
}

func base(thread segno.ThreadID) segno.Commit {
	return segno.Commit{ID: "base of " + segno.CommitID(thread), Thread: thread, Create: &segno.Thread{ID: thread},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}
}

// verifyWhole verifies that every acknowledged commit of a thread exists with all its parts, and that no other
// commit exists in part.
func verifyWhole(t *testing.T, s *Store, thread segno.ThreadID, acknowledged []segno.CommitID) {
	t.Helper()
	head, err := s.Head(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	there := map[segno.CommitID]bool{}
	for i, n := range line.Commits {
		there[n.ID] = true
		if n.Seq != int64(i+1) {
			t.Errorf("commit %s has seq %d at place %d", n.ID, n.Seq, i)
		}
		if i == 0 {
			continue
		}
		if want := fmt.Sprintf("%q", "said in "+string(n.ID)); len(n.Entries) != 1 || string(n.Entries[0].Body) != want {
			t.Errorf("the entries of %s are %v", n.ID, n.Entries)
		}
		if data, err := s.Objects().Get(t.Context(), n.Checkpoint.State.Data); err != nil || string(data) != "object of "+string(n.ID) {
			t.Errorf("the object of %s: %q, %v", n.ID, data, err)
		}
		found := 0
		for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Key: segno.TurnKey("key of " + n.ID)}) {
			if err != nil || c.ID != n.ID {
				t.Errorf("by the key of %s: %s, %v", n.ID, c.ID, err)
			}
			found++
		}
		if found != 1 {
			t.Errorf("%d checkpoints have the key of %s", found, n.ID)
		}
	}
	if int64(len(line.Commits)) != head.Seq {
		t.Errorf("the line has %d commits, the head's seq is %d", len(line.Commits), head.Seq)
	}
	for _, id := range acknowledged {
		if !there[id] {
			t.Errorf("%s was acknowledged and is gone", id)
		}
	}
}

// TestTheServerIsKilled kills the server while writers commit, and starts it again. The store of the writers
// must recover: each commit is applied once, or its error reports that the outcome is unknown.
func TestTheServerIsKilled(t *testing.T) {
	rounds, writers := soak.Count(t, 2, 200), 3
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*2*time.Minute)
	defer cancel()
	own := ownServer(t)
	s := openAt(t, own.URL, Options{Patience: 5 * time.Minute}, func(*pgxpool.Config) {})
	done := make([][]segno.CommitID, writers)
	acknowledged := make(chan int, 1000)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for k := range writers {
		head, err := s.Commit(t.Context(), base(segno.ThreadID(fmt.Sprint("thread ", k))))
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { done[k] = writeUntil(t, s, head, k, stop, acknowledged) })
	}
	r := rand.New(rand.NewPCG(soak.Seed(t), 0))
	for range rounds {
		for range 5 + r.IntN(40) {
			select {
			case <-acknowledged:
			case <-ctx.Done():
				t.Fatal("the writers stand still")
			}
		}
		own.Kill()
		if err := own.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	group.Wait()
	for k := range writers {
		verifyWhole(t, s, segno.ThreadID(fmt.Sprint("thread ", k)), done[k])
		t.Logf("writer %d: %d commits", k, len(done[k]))
	}
}

// writeUntil commits until stop is closed, and returns the acknowledged commits.
func writeUntil(t *testing.T, s *Store, head segno.Head, k int, stop chan struct{}, acknowledged chan int) (done []segno.CommitID) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return done
		default:
		}
		c, err := turn(t.Context(), s, head, segno.CommitID(fmt.Sprintf("writer %d commit %d", k, i)))
		if err == nil {
			head, err = s.Commit(t.Context(), c)
		}
		if err != nil {
			t.Errorf("writer %d: %v", k, err)
			return done
		}
		done = append(done, c.ID)
		select {
		case acknowledged <- k:
		default:
		}
	}
}

// TestTheServerStaysAway verifies that a call fails when its patience or its context ends, and that the error
// reports which of them ended.
func TestTheServerStaysAway(t *testing.T) {
	own := ownServer(t)
	s := openAt(t, own.URL, Options{Patience: 50 * time.Millisecond}, func(*pgxpool.Config) {})
	head, err := s.Commit(t.Context(), base("thread"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := turn(t.Context(), s, head, "next")
	if err != nil {
		t.Fatal(err)
	}
	own.Kill()
	_, err = s.Commit(t.Context(), c)
	if segno.KindOf(err) != segno.KindIO || segno.HintOf(err) == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("a commit: %v (%v)", err, segno.KindOf(err))
	}
	if _, err := s.Head(t.Context(), "thread"); segno.KindOf(err) != segno.KindIO {
		t.Errorf("a head: %v", err)
	}
	s.options.Patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Head(ctx, "thread"); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("a head until the context ends: %v (%v)", err, segno.KindOf(err))
	}
	if _, err := Open(ctx, own.URL, Options{}); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("an opening: %v (%v)", err, segno.KindOf(err))
	}
	if err := own.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Commit(t.Context(), c); err != nil {
		t.Errorf("once it is back: %v", err)
	}
	verifyWhole(t, s, "thread", []segno.CommitID{"next"})
}

// commitUntilKilled runs in another process: it commits on the head of a thread, beside other writers, and prints
// the acknowledged commits.
func commitUntilKilled(ctx context.Context, url, schema string) error {
	s, err := Open(ctx, url, Options{Schema: schema})
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := s.Head(ctx, "thread")
	for i := 0; err == nil; i++ {
		var c segno.Commit
		if c, err = turn(ctx, s, head, segno.CommitID(segno.NewID())); err != nil {
			break
		}
		var lost *segno.ConflictError
		head, err = s.Commit(ctx, c)
		if errors.As(err, &lost) {
			head, err = lost.Actual, nil
			continue
		}
		if err == nil {
			fmt.Println(c.ID)
		}
	}
	return err
}

// TestTwoProcesses makes two processes commit on one thread until both are killed.
func TestTwoProcesses(t *testing.T) {
	s := openStore(t, Options{})
	if _, err := s.Commit(t.Context(), base("thread")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var acknowledged []segno.CommitID
	var group sync.WaitGroup
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childURL+"="+server.URL, childSchema+"="+s.options.Schema)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			lines := bufio.NewScanner(out)
			for n := 1; lines.Scan(); n++ {
				mu.Lock()
				acknowledged = append(acknowledged, segno.CommitID(lines.Text()))
				mu.Unlock()
				if n == 60 {
					cmd.Process.Kill()
				}
			}
			cmd.Wait() // the kill is the error
			if said.Len() > 0 {
				t.Errorf("a process said: %s", said.String())
			}
		})
	}
	group.Wait()
	if len(acknowledged) < 120 {
		t.Fatalf("%d commits were acknowledged", len(acknowledged))
	}
	slices.Sort(acknowledged)
	if n := len(slices.Compact(slices.Clone(acknowledged))); n != len(acknowledged) {
		t.Errorf("%d commits were acknowledged twice", len(acknowledged)-n)
	}
	verifyWhole(t, s, "thread", acknowledged)
}
