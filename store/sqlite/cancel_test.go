package sqlite

import (
	"context"
	"errors"
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
