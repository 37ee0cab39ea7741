package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// TestADeadlineWhileAnotherWrites verifies that a commit that waits for another process ends with its
// context, and that the error wraps the context's error.
func TestADeadlineWhileAnotherWrites(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	s := openIn(t, dir, Options{BusyTimeout: time.Minute})
	defer s.Close()
	other := openIn(t, dir, Options{})
	defer other.Close()
	c := <-other.writer
	defer func() { other.writer <- c }()
	if _, err := c.sql.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	defer c.sql.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
	late, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	_, err := s.Commit(late, segno.Commit{ID: "next", Thread: "thread", Parent: head.Head, Expect: head.Head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}})
	if segno.KindOf(err) != segno.KindCancelled || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the commit fails with %v of kind %q", err, segno.KindOf(err))
	}
}

// TestReadsWaitAfterACommit commits with a context that can end, which tries without waiting, and then reads. The read must wait for
// another process again. A connection of OpenDB always waits, because the caller of OpenDB uses it again.
func TestReadsWaitAfterACommit(t *testing.T) {
	const want = 60_000
	timeout := func(s *Store) (ms int) {
		t.Helper()
		c := <-s.writer
		defer func() { s.writer <- c }()
		if err := c.sql.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&ms); err != nil {
			t.Fatal(err)
		}
		return ms
	}
	s := openIn(t, t.TempDir(), Options{BusyTimeout: want * time.Millisecond})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	base := segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}
	if _, err := s.Commit(ctx, base); err != nil {
		t.Fatal(err)
	}
	if got := timeout(s); got != 0 {
		t.Errorf("after a commit, statements wait %d ms", got)
	}
	if _, err := s.Head(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if got := timeout(s); got != want {
		t.Errorf("after a read, statements wait %d ms", got)
	}

	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	shared, err := OpenDB(t.Context(), db, Options{BusyTimeout: want * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	if _, err := shared.Commit(ctx, base); err != nil {
		t.Fatal(err)
	}
	if got := timeout(shared); got != want {
		t.Errorf("on a connection of the caller, statements wait %d ms after a commit", got)
	}
}
