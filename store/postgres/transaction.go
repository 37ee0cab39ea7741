package postgres

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
)

// InTx runs f in a transaction. It calls f again if the transaction failed for a reason that may pass, or if the answer to its
// COMMIT was lost, so f must be safe to repeat, even after it succeeded. Errors have the kinds of the store's other methods.
func (s *Store) InTx(ctx context.Context, op, name string, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.OnConn(ctx, op, name, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, s.forTenant(conn), pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// OnConn is [Store.InTx] without a transaction, for a single statement. In a store with tenants, the connection acts for no tenant,
// so it sees no rows of the store.
func (s *Store) OnConn(ctx context.Context, op, name string, f func(ctx context.Context, conn *pgx.Conn) error) error {
	return s.call(ctx, op, name, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return notSentError{err}
		}
		defer conn.Release()
		return f(s.writeContext(ctx), conn.Conn())
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
