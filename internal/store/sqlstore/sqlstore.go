// Package sqlstore has the code that store/sqlite and store/postgres share. It reads lines, lists and workspaces, finds
// the records that a collection drops, and seals records for their rows. Each store has a separate schema, way to
// commit, and storage for large objects.
//
// # Queries
//
// A query of this package is valid in SQLite and in PostgreSQL, except for two marks. A [Querier] replaces
// "{}" before the name of a table by the prefix of its schema, and "?" before the number of an argument by
// the character that its database uses.
package sqlstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// Querier runs queries on a connection, inside or outside a transaction.
type Querier interface {
	// Query scans each row into dest and then calls each, until each returns an error. It returns that error. Byte
	// slices in dest belong to the caller; each row gets new ones.
	Query(ctx context.Context, query string, args, dest []any, each func() error) error
}

// Database is the part of a store that this package uses. All its errors have a kind, as errors of
// the store must.
type Database interface {
	// Read calls f with a connection. It may call f again if the connection was lost, so f must
	// begin by discarding the rows of an earlier call.
	Read(ctx context.Context, op, name string, f func(ctx context.Context, q Querier) error) error
	// Change executes a statement and reports whether it changed a row. If the answer was lost, it
	// executes the statement again, and reports about the last execution.
	Change(ctx context.Context, op, name, query string, args ...any) (changed bool, err error)
	// ID returns an id as an argument of a query.
	ID(id string) any
	// Missed returns the error for a row that no query found by its id: [segno.KindNotFound], or
	// [segno.KindCorrupt] if the table has the row and its index does not.
	Missed(ctx context.Context, op, table, id string) error
	// Lease reads the row of a thread that is not deleted, and the present time.
	Lease(ctx context.Context, op string, thread segno.ThreadID) (LeaseRow, time.Time, error)
	// LeaseOwner returns the value of the column owner for a lease.
	LeaseOwner(l *LeaseRow) any
	// VerifyLease verifies and removes the checksum in the column owner, if the store has one.
	VerifyLease(op string, l *LeaseRow) error
}

// Text is a destination for columns of text, bytes or whole numbers. NULL is "". Unlike a string, it can be scanned
// from PostgreSQL's bytea. Unlike a []byte, it costs only one copy.
type Text string

// Scan implements [database/sql.Scanner].
func (t *Text) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*t = ""
	case string:
		*t = Text(v)
	case []byte:
		*t = Text(v)
	case int64:
		*t = Text(strconv.FormatInt(v, 10))
	default:
		return fmt.Errorf("a column of text has the type %T", value)
	}
	return nil
}

// List returns the rows of a query. It scans each row into dest, and convert returns the row's value.
func List[T any](ctx context.Context, db Database, op, name, query string, args, dest []any, convert func() (T, error)) ([]T, error) {
	var all []T
	err := db.Read(ctx, op, name, func(queryCtx context.Context, q Querier) error {
		all = nil
		return q.Query(queryCtx, query, args, dest, func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := convert()
			all = append(all, x)
			return err
		})
	})
	return all, err
}

// ReadRow scans the only row of a query into dest. The error is [segno.KindNotFound] if there is none.
func ReadRow(ctx context.Context, db Database, op, name, query string, args []any, dest ...any) error {
	rows, err := List(ctx, db, op, name, query, args, dest, func() (any, error) { return nil, nil })
	if err == nil && len(rows) == 0 {
		err = segno.NewError(segno.KindNotFound, op, name, nil)
	}
	return err
}

// yieldAll returns an iterator over a list that is read when the iteration starts. The iterator holds no connection
// while the caller handles an element, so the caller may use the store.
func yieldAll[T any](read func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := read()
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// Calls counts the running calls of a store, so that Close can wait for them. The zero value is ready to use.
type Calls struct {
	mu     sync.Mutex // guards closed and the first Add of active
	closed bool
	active sync.WaitGroup
}

// Begin starts a call. If it returns nil, the caller must call End.
func (c *Calls) Begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return segno.NewError(segno.KindCancelled, op, "", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	c.active.Add(1)
	return nil
}

// End ends a call that Begin started.
func (c *Calls) End() { c.active.Done() }

// Close makes Begin fail from now on, calls wake to end the calls that wait for a commit, and waits for all
// calls. It reports whether this is the first Close.
func (c *Calls) Close(wake func()) (first bool) {
	c.mu.Lock()
	first = !c.closed
	c.closed = true
	c.mu.Unlock()
	wake()
	c.active.Wait()
	return first
}

// WithCause returns an error with the text of err that also matches cause in errors.Is.
func WithCause(err, cause error) error { return &causedError{err, cause} }

type causedError struct{ err, cause error }

func (e *causedError) Error() string   { return e.err.Error() }
func (e *causedError) Unwrap() []error { return []error{e.err, e.cause} }
