package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// conn is one connection and the statements prepared on it. One goroutine uses
// it at a time.
type conn struct {
	sql        *sql.Conn
	statements map[string]*sql.Stmt
}

func (c *conn) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := c.statements[query]; st != nil {
		return st, nil
	}
	st, err := c.sql.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.statements[query] = st
	return st, nil
}

func (c *conn) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// row scans the first row into dest and reports whether there was one.
func (c *conn) row(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	st, err := c.statement(ctx, query)
	if err != nil {
		return false, err
	}
	err = st.QueryRowContext(ctx, args...).Scan(dest...)
	if err == sql.ErrNoRows {
		return false, nil
	}
	return err == nil, err
}

// rows calls each for every row. each must be done with the row when it returns.
func (c *conn) rows(ctx context.Context, query string, args []any, each func(*sql.Rows) error) error {
	st, err := c.statement(ctx, query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// connect opens one more connection.
func (s *Store) connect(ctx context.Context) (*conn, error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{sql: c, statements: map[string]*sql.Stmt{}}, nil
}

// close closes the statements and the connection under them.
func (c *conn) close() error {
	for _, st := range c.statements {
		st.Close() // the connection is about to go
	}
	return c.sql.Close()
}

// readers is how many connections a store opens for reading beside its writer.
const readers = 4

// read calls f with a connection in a transaction-less state. Each statement of
// f sees the newest commit. A process that does one thing at a time reads on the
// writer's connection and never opens another.
func (s *Store) read(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error {
	return s.readOn(ctx, op, name, s.writer, f)
}

// readApart is read for what takes long or calls back: it leaves the writer's
// connection to writers.
func (s *Store) readApart(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error {
	return s.readOn(ctx, op, name, nil, f)
}

func (s *Store) readOn(ctx context.Context, op, name string, writer chan *conn, f func(ctx context.Context, c *conn) error) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.calls.Done()
	c, home, err := s.reader(ctx, writer)
	if err != nil {
		return fail(op, name, err)
	}
	defer func() { home <- c }()
	return failCtx(ctx, op, name, f(context.WithoutCancel(ctx), c))
}

// reader returns a connection to read on and where to give it back. writer, if
// not nil, is asked too.
func (s *Store) reader(ctx context.Context, writer chan *conn) (c *conn, home chan *conn, err error) {
	select {
	case c := <-s.idle:
		return c, s.idle, nil
	default:
	}
	select {
	case c := <-writer:
		return c, writer, nil
	default:
	}
	if s.opened.Add(1) <= readers {
		c, err := s.connect(context.WithoutCancel(ctx))
		if err != nil {
			s.opened.Add(-1)
			return nil, nil, err
		}
		return c, s.idle, nil
	}
	s.opened.Add(-1)
	select {
	case c := <-s.idle:
		return c, s.idle, nil
	case c := <-writer:
		return c, writer, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// write calls f in a transaction that has the only write lock, and commits it if
// f succeeds: it is on disk when write returns nil. ctx ends the wait for the
// lock; once f has run, it is looked at a last time before the commit.
func (s *Store) write(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error {
	if s.options.ReadOnly {
		return refusedReadOnly(op, name)
	}
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.calls.Done()
	var c *conn
	select {
	case c = <-s.writer:
	case <-ctx.Done():
		return fail(op, name, ctx.Err())
	}
	defer func() { s.writer <- c }()
	return failCtx(ctx, op, name, c.transaction(ctx, f))
}

func (c *conn) transaction(ctx context.Context, f func(ctx context.Context, c *conn) error) (err error) {
	calm := context.WithoutCancel(ctx)
	defer func() {
		if err != nil {
			// Nothing to roll back is the usual outcome where SQLite did it itself.
			_, _ = c.exec(calm, "ROLLBACK")
		}
	}()
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := f(calm, c); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := c.exec(calm, "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
