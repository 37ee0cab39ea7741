package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// conn is a connection and its prepared statements. Only one goroutine uses it at a time.
type conn struct {
	sql        *sql.Conn
	statements map[string]*sql.Stmt

	polledVersion int64            // see hasChanged
	durability    segno.Durability // of the next transaction; unknownDurability after an error
	last          *lastCommit      // the newest commit by this connection; may be nil
	busyTimeout   time.Duration    // how long a statement waits for another process
	isShared      bool             // the caller of OpenDB uses the connection again, and its settings
	isImpatient   bool             // statements do not wait; see begin
}

// statement returns the prepared statement of a query. The number of different queries is small, so
// statements stay prepared until the connection closes.
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
func (c *conn) row(ctx context.Context, query string, args []any, dest ...any) (found bool, err error) {
	st, err := c.statement(ctx, query)
	if err != nil {
		return false, err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return false, err
	}
	if rows.Next() {
		found, err = true, scan(rows, dest)
	}
	err = cmp.Or(err, rows.Err(), rows.Close())
	return found && err == nil, err
}

// scan scans a row. A value that does not fit its destination is damaged, because the package writes no such
// values. The error omits the driver's error, because that quotes the value.
func scan(rows *sql.Rows, dest []any) error {
	if err := rows.Scan(dest...); err != nil {
		return fmt.Errorf("a value has the wrong type: %w", record.ErrDamaged)
	}
	return nil
}

// Query implements [sqlstore.Querier].
func (c *conn) Query(ctx context.Context, query string, args, dest []any, each func() error) error {
	st, err := c.statement(ctx, strings.ReplaceAll(query, "{}", ""))
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns its error
	for rows.Next() {
		if err := scan(rows, dest); err != nil {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// connect opens a connection.
func (s *Store) connect(ctx context.Context) (*conn, error) {
	raw, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{sql: raw, statements: map[string]*sql.Stmt{}, busyTimeout: s.options.BusyTimeout, isShared: !s.ownsDB}
	if !s.ownsDB {
		_, err = raw.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d; PRAGMA synchronous=FULL", s.options.BusyTimeout.Milliseconds()))
	}
	if err == nil && s.hasSums {
		err = s.checkSums(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// close closes the statements and the connection.
func (c *conn) close() error {
	for _, st := range c.statements {
		_ = st.Close() // closing the connection follows
	}
	return c.sql.Close()
}

const (
	// maxReaders is the largest number of connections for reading, in addition to the writer.
	maxReaders = 4
	// maxConns is the largest number of all connections.
	maxConns = maxReaders + 1
)

// read calls f with a connection outside a transaction: each statement of f reads the newest commit. A
// process that makes one call at a time reads on the writer's connection and opens no other one.
func (s *Store) read(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error {
	return s.readOn(ctx, op, name, s.writer, f)
}

// readApart is read for long reads, and for reads that call the store again. It never uses the writer's
// connection.
func (s *Store) readApart(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error {
	return s.readOn(ctx, op, name, nil, f)
}

// readSnapshot is readApart, with all reads of f in one snapshot of the database.
func (s *Store) readSnapshot(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error {
	return s.readApart(ctx, op, name, func(queryCtx context.Context, c *conn) (err error) {
		if _, err := c.exec(queryCtx, "BEGIN"); err != nil {
			return err
		}
		defer func() {
			_, endErr := c.exec(queryCtx, "ROLLBACK") // nothing was written
			err = errors.Join(err, endErr)
		}()
		return f(queryCtx, c)
	})
}

func (s *Store) readOn(ctx context.Context, op, name string, writer chan *conn, f func(ctx context.Context, c *conn) error) error {
	if err := s.calls.Begin(ctx, op); err != nil {
		return err
	}
	defer s.calls.End()
	c, pool, err := s.acquireReader(ctx, writer)
	if err != nil {
		return fail(op, name, err)
	}
	defer func() { pool <- c }()
	err = c.setImpatient(ctx, false)
	if err == nil {
		err = f(context.WithoutCancel(ctx), c)
	}
	return failCtx(ctx, op, name, err)
}

// acquireReader returns a connection for reading and the channel to which the caller must return it. It
// prefers a free reading connection, then the writer's, and then opens another one, up to maxReaders. It
// takes the connection from writer only if that is not nil.
func (s *Store) acquireReader(ctx context.Context, writer chan *conn) (c *conn, pool chan *conn, err error) {
	for _, pool := range []chan *conn{s.readers, writer} {
		select {
		case c := <-pool:
			return c, pool, nil
		default:
		}
	}
	if s.opened.Add(1) <= maxReaders {
		c, err := s.connect(context.WithoutCancel(ctx))
		if err != nil {
			s.opened.Add(-1)
			return nil, nil, err
		}
		return c, s.readers, nil
	}
	s.opened.Add(-1)
	select {
	case c := <-s.readers:
		return c, s.readers, nil
	case c := <-writer:
		return c, writer, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// write calls f in a transaction that holds the write lock, and commits the transaction if f succeeds. The
// changes are on disk when write returns nil. If ctx ends, write stops waiting for the lock. If ctx ends
// before the commit, there is no commit.
func (s *Store) write(ctx context.Context, op, name string, f func(tx *tx) error) error {
	return s.withWriter(ctx, segno.Synced, op, name, func(ctx context.Context, c *conn) error { return c.transaction(ctx, f) })
}

// unknownDurability is not a durability. The next transaction sets its own.
const unknownDurability segno.Durability = -1

// setDurability chooses whether the next transactions wait for the disk. In WAL mode, a transaction with synchronous
// NORMAL does not sync the log; the next sync of the log, for a transaction or for a checkpoint of SQLite, includes it.
func (c *conn) setDurability(ctx context.Context, d segno.Durability) error {
	if c.durability == d {
		return nil
	}
	level := "FULL"
	if d == segno.Batched {
		level = "NORMAL"
	}
	c.durability = unknownDurability
	// The statement must not be a prepared one, because SQLite executes this pragma when it compiles it. So it may also have an
	// effect if ctx ends meanwhile and the driver returns an error.
	if _, err := c.sql.ExecContext(context.WithoutCancel(ctx), "PRAGMA synchronous="+level); err != nil {
		return err
	}
	c.durability = d
	return nil
}

// withWriter calls f with the writing connection. A process has only one, so its writers wait for each other
// on the channel, and the end of a context ends the wait. SQLite's busy handler would poll.
func (s *Store) withWriter(ctx context.Context, d segno.Durability, op, name string, f func(ctx context.Context, c *conn) error) error {
	if s.options.Full {
		return fail(op, name, syscall.ENOSPC)
	}
	if s.options.ReadOnly {
		return segno.Errorf(segno.KindRefused, op, name, "the store is read-only").WithHint("make it writable, or use another store")
	}
	if err := s.calls.Begin(ctx, op); err != nil {
		return err
	}
	defer s.calls.End()
	select {
	case c := <-s.writer:
		defer func() { s.writer <- c }()
		err := c.setDurability(ctx, d)
		if err == nil {
			err = f(ctx, c)
		}
		return failCtx(ctx, op, name, err)
	case <-ctx.Done():
		return fail(op, name, ctx.Err())
	}
}

// tx is a transaction that holds the write lock. It executes statements until one fails. After that, the
// methods do nothing, and write returns the error.
type tx struct {
	c   *conn
	ctx context.Context // never ends, because interrupting a statement would end the transaction
	err error
}

// exec executes a statement and returns the number of rows that it changed.
func (t *tx) exec(query string, args ...any) (changed int64) {
	if r := t.run(query, args); r != nil {
		changed, t.err = r.RowsAffected()
	}
	return changed
}

// insert executes a statement and returns the number of the row that it inserted.
func (t *tx) insert(query string, args ...any) (n int64) {
	if r := t.run(query, args); r != nil {
		n, t.err = r.LastInsertId()
	}
	return n
}

func (t *tx) run(query string, args []any) (r sql.Result) {
	if t.err == nil {
		r, t.err = t.c.exec(t.ctx, query, args...)
	}
	if t.err != nil {
		return nil
	}
	return r
}

// row scans the first row of a query into dest and reports whether there was one.
func (t *tx) row(query string, args []any, dest ...any) (found bool) {
	if t.err == nil {
		found, t.err = t.c.row(t.ctx, query, args, dest...)
	}
	return found
}

// transaction calls f between BEGIN IMMEDIATE, which takes the write lock, and COMMIT, which makes the
// changes durable. If f or a statement fails, the transaction is rolled back.
func (c *conn) transaction(ctx context.Context, f func(*tx) error) (err error) {
	t := &tx{c: c, ctx: context.WithoutCancel(ctx)}
	defer func() {
		if err != nil {
			_, _ = c.exec(t.ctx, "ROLLBACK") // fails if SQLite has already rolled back
		}
	}()
	if err := c.begin(ctx); err != nil {
		return err
	}
	err = f(t)
	if err := cmp.Or(t.err, err, ctx.Err()); err != nil {
		return err
	}
	if _, err := c.exec(t.ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// begin takes the write lock. If ctx can end, the driver starts a goroutine for a statement with ctx, and to wake a processor for it
// takes as long as half of a commit. So begin first tries without ctx and without waiting, which succeeds unless another process
// has the lock.
func (c *conn) begin(ctx context.Context) error {
	const statement = "BEGIN IMMEDIATE"
	if ctx.Done() != nil && !c.isShared {
		err := cmp.Or(ctx.Err(), c.setImpatient(ctx, true))
		if err == nil {
			_, err = c.exec(context.WithoutCancel(ctx), statement)
		}
		if err == nil || kindOf(err) != segno.KindBusy {
			return err
		}
	}
	if err := c.setImpatient(ctx, false); err != nil {
		return err
	}
	_, err := c.exec(ctx, statement)
	return err
}

// setImpatient chooses whether the next statements wait for another process.
func (c *conn) setImpatient(ctx context.Context, isImpatient bool) error {
	if c.isImpatient == isImpatient {
		return nil
	}
	timeout := c.busyTimeout
	if isImpatient {
		timeout = 0
	}
	// SQLite executes this pragma when it compiles it; see setDurability.
	_, err := c.sql.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout=%d", timeout.Milliseconds()))
	if err == nil {
		c.isImpatient = isImpatient
	}
	return err
}

// database implements [sqlstore.Database].
type database struct{ *Store }

func (database) ID(id string) any { return id }

func (d database) Read(ctx context.Context, op, name string, f func(context.Context, sqlstore.Querier) error) error {
	return d.read(ctx, op, name, func(ctx context.Context, c *conn) error { return f(ctx, c) })
}

func (d database) Change(ctx context.Context, op, name, query string, args ...any) (changed bool, err error) {
	err = d.write(ctx, op, name, func(tx *tx) error {
		changed = tx.exec(strings.ReplaceAll(query, "{}", ""), args...) > 0
		return nil
	})
	return changed, err
}

func (d database) Missed(ctx context.Context, op, table, id string) error {
	err := d.read(ctx, op, id, func(ctx context.Context, c *conn) error { return missedRow(ctx, c, op, table, id) })
	return cmp.Or(err, notFound(op, id))
}
