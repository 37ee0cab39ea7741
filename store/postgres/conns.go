package postgres

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// conns runs statements on a connection. A pool and a connection implement it.
type conns interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// forTenant returns conns that run statements for the store's tenant. In a store without tenants it returns c.
func (s *Store) forTenant(c conns) conns {
	if !s.hasTenants {
		return c
	}
	return tenantConns{conns: c, tenant: s.tenant, lock: s.lockClass(), begin: "pg_advisory_xact_lock_shared"}
}

// lockClass is the first number of the key of a tenant's lock: a hash of the schema. The second is the tenant.
func (s *Store) lockClass() int32 {
	h := fnv.New32a()
	h.Write([]byte(s.options.Schema))
	return int32(h.Sum32())
}

// rowQuerier runs a statement that returns one row.
type rowQuerier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// writer returns c for statements that write and return a row.
func (s *Store) writer(c conns) rowQuerier {
	if t, ok := s.forTenant(c).(tenantConns); ok {
		return tenantWriter{t}
	}
	return c
}

// tenantConns runs each statement for one tenant. The tenant is a setting of the statement's transaction, not of the
// connection: other tenants may use the connection before and after, and so may a pooler in transaction mode. The
// driver sends the setting and the statement together, so they take one round trip. PostgreSQL executes them in one
// transaction, which ends after the statement.
//
// A write holds a shared lock of the tenant until the end of its transaction. A collection holds the exclusive one: it
// blocks the writers of its tenant, and no others.
type tenantConns struct {
	conns
	tenant int32
	lock   int32  // its lock: [Store.lockClass]
	begin  string // the function that takes the lock of a transaction
}

const setTenant = `SELECT set_config('segno.tenant', $1::text, true)`

// Query runs a query that does not write.
func (t tenantConns) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	return t.send(ctx, setTenant, []any{fmt.Sprint(t.tenant)}, query, args)
}

// QueryRow is like [tenantConns.Query].
func (t tenantConns) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, query, args...)
	return tenantRow{rows, err}
}

// tenantWriter is tenantConns, but its QueryRow may write.
type tenantWriter struct{ tenantConns }

func (t tenantWriter) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	rows, err := t.write(ctx, query, args)
	return tenantRow{rows, err}
}

// Exec executes a statement that may write.
func (t tenantConns) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	rows, err := t.write(ctx, query, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// write runs a statement that may write and returns its rows. The write is only complete if Err returns nil after the
// rows are closed.
func (t tenantConns) write(ctx context.Context, query string, args []any) (pgx.Rows, error) {
	return t.send(ctx, setTenant+`, pg_advisory_xact_lock_shared($2, $3)`, []any{fmt.Sprint(t.tenant), t.lock, t.tenant}, query, args)
}

func (t tenantConns) send(ctx context.Context, set string, setArgs []any, query string, args []any) (pgx.Rows, error) {
	b := new(pgx.Batch)
	b.Queue(set, setArgs...)
	b.Queue(query, args...)
	results := t.SendBatch(ctx, b)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			return &tenantRows{Rows: rows, results: results}, nil
		}
	}
	results.Close()
	return nil, err
}

// BeginTx begins a transaction. If it may write, it takes the lock.
func (t tenantConns) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	begin := "BEGIN"
	if o.IsoLevel != "" {
		begin += " ISOLATION LEVEL " + string(o.IsoLevel)
	}
	begin += fmt.Sprintf(`; SELECT set_config('segno.tenant', '%d', true)`, t.tenant)
	if o.AccessMode != pgx.ReadOnly {
		begin += fmt.Sprintf(`, %s(%d, %d)`, t.begin, t.lock, t.tenant)
	}
	return t.conns.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
}

// tenantRows are the rows of a statement for a tenant. Close waits until the statement's transaction has ended.
type tenantRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *tenantRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *tenantRows) Close() {
	r.Rows.Close()
	if r.results != nil {
		r.err = r.results.Close()
		r.results = nil
	}
}

func (r *tenantRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }

// tenantRow is the first row of a statement for a tenant.
type tenantRow struct {
	rows pgx.Rows
	err  error
}

func (r tenantRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	err := r.rows.Scan(dest...)
	r.rows.Close()
	return cmp.Or(err, r.rows.Err())
}
