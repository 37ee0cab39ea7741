package sqlite

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// TestTheNextCommitReadsNothing verifies that a commit that follows the last one of its connection has no query.
func TestTheNextCommitReadsNothing(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	head := mustCommit(t, s, segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	all := steps(3)
	head = mustCommit(t, s, stepCommit(head, all[0], 0))
	c := <-s.writer
	for query, st := range c.statements {
		if strings.HasPrefix(query, "SELECT") {
			st.Close()
			delete(c.statements, query)
		}
	}
	s.writer <- c
	head = mustCommit(t, s, stepCommit(head, all[1], 1))
	for query := range c.statements {
		if strings.HasPrefix(query, "SELECT") {
			t.Errorf("the commit of a step has the query %s", query)
		}
	}
	if now, err := s.Head(t.Context(), "thread"); err != nil || now != head || now.Seq != 3 {
		t.Errorf("the head is %+v, %v, want %+v", now, err, head)
	}
}

// TestACommitAfterAnotherChange verifies that a commit does not rely on the last one of its connection after another process,
// or another call of this one, has changed the thread.
func TestACommitAfterAnotherChange(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	other := openIn(t, s.dir, Options{})
	defer other.Close()
	head := mustCommit(t, s, segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	all := steps(20)
	next := func() (c segno.Commit) {
		c, all = stepCommit(head, all[0], 0), all[1:]
		return c
	}
	refused := func(what string, c segno.Commit, want segno.Kind) {
		t.Helper()
		if _, err := s.Commit(t.Context(), c); segno.KindOf(err) != want {
			t.Errorf("%s: %v, want an error of the kind %q", what, err, want)
		}
	}
	for range 3 {
		head = mustCommit(t, s, next())
		stale := next()
		head = mustCommit(t, other, next())
		refused("a commit after that of another process", stale, segno.KindConflict)
		head = mustCommit(t, s, next())
	}
	if head.Seq != 10 {
		t.Errorf("the thread has the sequence number %d", head.Seq)
	}
	again := next()
	again.ID = "base"
	refused("another commit with the id of an earlier one", again, segno.KindConflict)
	last := next()
	head = mustCommit(t, s, last)
	if repeated := mustCommit(t, s, last); repeated != head {
		t.Errorf("the repeated commit returns %+v, want %+v", repeated, head)
	}
	fork := mustCommit(t, s, segno.Commit{ID: "fork", Thread: "fork", Parent: head.Head, Create: &segno.Thread{ID: "fork"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	head = mustCommit(t, s, next())
	if fork = mustCommit(t, s, stepCommit(fork, all[0], 0)); fork.Seq != 2 {
		t.Errorf("the fork has the sequence number %d", fork.Seq)
	}
	head = mustCommit(t, s, next())
	if _, err := s.Acquire(t.Context(), segno.Lease{Thread: "thread", Owner: "worker", Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	refused("a commit without the lease", next(), segno.KindFenced)
	leased := next()
	leased.Epoch = head.Epoch + 1
	head = mustCommit(t, s, leased)
	if err := s.Delete(t.Context(), "thread"); err != nil {
		t.Fatal(err)
	}
	refused("a commit to a deleted thread", next(), segno.KindNotFound)
	head = mustCommit(t, s, stepCommit(fork, all[0], 0))
	if _, err := s.Check(t.Context(), segno.CheckPolicy{}, func(damage error) bool { t.Error(damage); return true }); err != nil {
		t.Error(err)
	}
}

// TestCommitAllAfterACommit verifies that CommitAll numbers and compares its commits one after the other, also those that
// follow the last commit of the connection.
func TestCommitAllAfterACommit(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	create := func(id segno.ThreadID) segno.Commit {
		return segno.Commit{ID: segno.CommitID("base of " + id), Thread: id, Create: &segno.Thread{ID: id},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}
	}
	all := steps(4)
	head := mustCommit(t, s, create("thread"))
	head, err := s.CommitAll(t.Context(), []segno.Commit{create("other"), stepCommit(head, all[0], 0)})
	if err != nil || head.Seq != 2 {
		t.Fatalf("after a commit to another thread: %+v, %v", head, err)
	}
	head = mustCommit(t, s, stepCommit(head, all[1], 1))
	both := []segno.Commit{stepCommit(head, all[2], 2), stepCommit(head, all[3], 3)}
	if _, err := s.CommitAll(t.Context(), both); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("two commits that expect the same head: %v, want a conflict", err)
	}
	if now, err := s.Head(t.Context(), "thread"); err != nil || now != head {
		t.Errorf("the head is %+v, %v, want %+v", now, err, head)
	}
	mustCommit(t, s, both[0])
	if _, err := s.Check(t.Context(), segno.CheckPolicy{}, func(damage error) bool { t.Error(damage); return true }); err != nil {
		t.Error(err)
	}
}
