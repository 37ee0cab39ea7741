package postgres

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestADeadlineWhileAnotherWrites verifies that a commit that waits for a lock ends with its context, and that
// the error wraps the context's error.
func TestADeadlineWhileAnotherWrites(t *testing.T) {
	s := openStore(t, Options{Patience: time.Minute})
	head, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), s.sql(`LOCK TABLE {}threads IN ACCESS EXCLUSIVE MODE`)); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(context.Context) error{
		"commit": func(ctx context.Context) error {
			_, err := s.Commit(ctx, segno.Commit{ID: "next", Thread: "thread", Parent: head.Head, Expect: head.Head,
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}})
			return err
		},
		"head": func(ctx context.Context) error { _, err := s.Head(ctx, "thread"); return err },
	} {
		late, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := call(late)
		end()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s fails with %v of kind %q", what, err, segno.KindOf(err))
		}
	}
}

// TestAFullDiskOfTheServer verifies that the error of a server with a full disk wraps ENOSPC.
func TestAFullDiskOfTheServer(t *testing.T) {
	s := openStore(t, Options{})
	err := s.fail(t.Context(), "commit", "x", &pgconn.PgError{Code: "53100", Message: "could not extend file"})
	if segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v is of kind %q", err, segno.KindOf(err))
	}
}
