package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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

// TestAWaitingCommitIsCancelled verifies that a commit that waits for a lock ends with its context, at once,
// and is not applied later, also if the server ignores the first request to cancel it.
func TestAWaitingCommitIsCancelled(t *testing.T) {
	for name, lose := range map[string]int32{"at once": 0, "after a request that the server ignores": 1} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutTenant(t, func(t *testing.T, open func(string, Options, func(*pgxpool.Config)) *Store) {
				cancelCommit(t, open("&synchronous_commit=off", Options{}, func(c *pgxpool.Config) {
					// A busy server takes longer to cancel a statement than a store waits before it gives up the connection.
					c.ConnConfig.BuildContextWatcherHandler = cancelWithin(5 * time.Minute)
					loseCancels(c, lose)
				}))
			})
		})
	}
}

// loseCancels makes n requests to cancel a statement disappear on their way to the server.
func loseCancels(c *pgxpool.Config, n int32) {
	left := new(atomic.Int32)
	left.Store(n)
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return loser{conn, left}, err
	}
}

type loser struct {
	net.Conn
	left *atomic.Int32
}

func (l loser) Write(b []byte) (int, error) {
	const cancelRequest = 80877102 // CANCEL_REQUEST_CODE in PostgreSQL's pqcomm.h
	if len(b) >= 8 && binary.BigEndian.Uint32(b[4:]) == cancelRequest && l.left.Add(-1) >= 0 {
		return len(b), l.Conn.Close()
	}
	return l.Conn.Write(b)
}

func cancelCommit(t *testing.T, s *Store) {
	head, err := s.Commit(t.Context(), base("thread"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := turn(t.Context(), s, head, "next")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	lock := fmt.Sprintf(`SET LOCAL segno.tenant = '%d'; SELECT FROM {}threads WHERE id = 'thread' FOR UPDATE`, s.tenant)
	if tag, err := tx.Exec(t.Context(), s.sql(lock)); err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Commit(ctx, c); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("the commit: %v (%v)", err, segno.KindOf(err))
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), "next", segno.Window{}); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("what was cancelled: %v", err)
	}
	if _, err := s.Commit(t.Context(), c); err != nil {
		t.Errorf("once nothing is in its way: %v", err)
	}
}
