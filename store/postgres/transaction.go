package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// InTx runs f in a transaction. It calls f again if the transaction failed for a reason that may pass, or if the answer to its
// COMMIT was lost, so f must be safe to repeat, even after it succeeded. Errors have the kinds of the store's other methods.
func (s *Store) InTx(ctx context.Context, op, name string, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.onConn(ctx, op, name, func(ctx context.Context, conn conns) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// Conn executes single statements. In a store with tenants, each one acts for the store's tenant.
type Conn interface {
	// Exec executes a statement that may write.
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	// Query and QueryRow read.
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// OnConn is [Store.InTx] without a transaction, for a single statement.
func (s *Store) OnConn(ctx context.Context, op, name string, f func(ctx context.Context, conn Conn) error) error {
	return s.onConn(ctx, op, name, func(ctx context.Context, conn conns) error { return f(ctx, conn) })
}

// UseTenant makes the rest of a transaction act for the store's tenant, as transactions of [Store.InTx] do. In a store without
// tenants it does nothing.
func (s *Store) UseTenant(ctx context.Context, tx pgx.Tx) error {
	if !s.hasTenants {
		return nil
	}
	_, err := tx.Exec(ctx, setTenant+`, pg_advisory_xact_lock_shared($2, $3)`, fmt.Sprint(s.tenant), s.lockClass(), s.tenant)
	return err
}

func (s *Store) onConn(ctx context.Context, op, name string, f func(ctx context.Context, conn conns) error) error {
	return s.call(ctx, op, name, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return notSentError{err}
		}
		defer conn.Release()
		return f(s.writeContext(ctx), s.forTenant(conn))
	})
}

// sendWith returns a [Store.send] that executes the commit's statement and inCommit in one transaction. As long as COMMIT was not sent,
// its error is an [abortedError].
func (s *Store) sendWith(inCommit func(context.Context, pgx.Tx, segno.Head) error) func(context.Context, segno.ThreadID, string, []any, *segno.Head) (bool, error) {
	return func(ctx context.Context, thread segno.ThreadID, query string, args []any, head *segno.Head) (applied bool, err error) {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return false, notSentError{err}
		}
		defer conn.Release()
		ctx = s.writeContext(ctx)
		tx, err := s.forTenant(conn).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return false, abortedError{err}
		}
		// After a COMMIT this does nothing. If the connection is lost, the server rolls back.
		defer tx.Rollback(context.WithoutCancel(ctx))
		var moved segno.Head
		if applied, err = s.query(ctx, tx, thread, query, args, &moved); err == nil && applied {
			err = inCommit(ctx, tx, moved)
		}
		if err != nil || !applied {
			return false, abort(err)
		}
		if err := tx.Commit(ctx); errors.Is(err, pgx.ErrTxCommitRollback) {
			return false, abortedError{err} // inCommit ignored the error of a statement
		} else if err != nil {
			return false, commitError{err}
		}
		*head = moved
		return true, nil
	}
}

// abortedError is the error of a transaction whose COMMIT was not sent, so that nothing was written and nothing will be.
type abortedError struct{ error }

func (e abortedError) Unwrap() error { return e.error }

func abort(err error) error {
	if err == nil {
		return nil
	}
	return abortedError{err}
}

// commitError is the error of a COMMIT. If its answer is lost, the driver reports a closed connection, as if COMMIT had not been sent.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }
