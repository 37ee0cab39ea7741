package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is a [segno.Store] in a schema of a PostgreSQL database. It also implements [segno.Chains],
// [segno.Workspaces], [segno.Leaser], [segno.Collector], [segno.Eraser], [segno.Checker] and [segno.Watcher].
// All methods may be called concurrently, by many processes on many machines.
type Store struct {
	*common

	options    Options
	name       string // host, database and schema, for errors; never the password
	schema     string // quoted
	id         string // the store's id, a random text in its meta table
	pool       *pgxpool.Pool
	db         conns // the pool, for the store's tenant
	ownsPool   bool
	tenant     int32 // its number, if the store has tenants
	hasTenants bool
	records    sqlstore.Records
	isSealed   bool // as recorded in the database
	watch      sqlstore.Watch
	calls      sqlstore.Calls
}

type common = sqlstore.Common

var (
	_ segno.Store      = (*Store)(nil)
	_ segno.Chains     = (*Store)(nil)
	_ segno.Workspaces = (*Store)(nil)
	_ segno.Leaser     = (*Store)(nil)
	_ segno.Collector  = (*Store)(nil)
	_ segno.Eraser     = (*Store)(nil)
	_ segno.Checker    = (*Store)(nil)
	_ segno.Watcher    = (*Store)(nil)
)

// Options configure how a store is opened. The zero Options are valid.
type Options struct {
	// Bucket stores bodies above 256 KB; nil means a table. All processes that open the store must use the
	// same bucket. The caller closes it, after the store.
	Bucket Bucket
	// Schema is the schema of the store's tables: letters, digits and underscores. Open creates it if it is
	// missing. "" means "segno".
	Schema string
	// Tenant is the name of a tenant of the schema: text of up to 255 bytes. "" means that the schema has no tenants.
	// Tenants share the tables and see nothing of each other: each is like a separate store, with its own [Options.Key].
	// PostgreSQL enforces this with row-level security, so Open refuses roles that are exempt from it. A schema is created
	// with tenants or without. The package comment has the details.
	Tenant string
	// MustExist makes Open return [segno.KindNotFound] if the schema does not contain a store, or the tenant does not
	// exist, instead of creating one.
	MustExist bool
	// Clock returns the time for the age of objects and of leases. nil means time.Now for objects and the
	// server's clock for leases. No order depends on it.
	Clock func() time.Time
	// Patience is how long a call retries while the server cannot be reached; 0 means 5 seconds. The end of
	// the call's context ends it earlier.
	Patience time.Duration
	// Key, if not nil, seals the store with AES-256. It is 32 random bytes, the same for all processes. A
	// store is sealed from its creation or never. A wrong key is [segno.KindRefused]. A record that was
	// changed or moved to another row is [segno.KindCorrupt]. A key cannot detect that a row was deleted,
	// or replaced by an older version of the same row.
	//
	// A reader of the database and the bucket without the key learns the ids of threads, commits,
	// workspaces and operations; the tree of commits with its heads, epochs and turns; which checkpoints
	// have a pin; which checkpoints have an equal session or an equal pair in Meta, but not its value; the
	// lengths of records and objects; when objects were added; when leases expire.
	Key []byte
	// InCommit, if not nil, is called for each commit before it is sent. If it returns a function, the commit is a transaction
	// instead of one statement: the function runs in it after the commit's statement, with the commit's head, and what it writes
	// is durable exactly if the commit is. It runs again if the transaction is retried, and not if the store finds that
	// an earlier try was applied. If it fails, nothing is written, and Commit returns its error. It must not write to the
	// tables of the store.
	InCommit func(c *segno.Commit) func(ctx context.Context, tx pgx.Tx, head segno.Head) error
}

var schemaName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`) })

func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = "segno"
	}
	if !schemaName().MatchString(o.Schema) {
		return o, segno.Errorf(segno.KindInvalid, "open store", o.Schema, "a schema's name has letters, digits and underscores only")
	}
	if o.Tenant != "" {
		if err := checkTenantName("open store", o.Tenant); err != nil {
			return o, err
		}
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	return o, record.CheckKey(o.Key)
}

// now returns the time for the age of objects.
func (o *Options) now() time.Time {
	if o.Clock == nil {
		return time.Now()
	}
	return o.Clock()
}

// Open opens the store in a database and creates its schema if it is missing. url is a connection string in
// the form that PostgreSQL's own programs accept: "postgres://user:password@host:port/database". Its
// parameter pool_max_conns limits the number of connections; the default is the larger of 4 and the number
// of CPUs. If a newer segno wrote the store, the error has [segno.KindNewer], and Open does not change the
// store.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o, func(*pgxpool.Config) {})
}

// OpenPool is [Open] with the connections of a pool, which the caller closes after the store. If the
// context of a write ends after the write was sent to the server, the write is not cancelled, because the
// pool may be configured to abandon such a statement, and the server may execute an abandoned statement
// later.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	s, err := withPool(pool, o)
	if err != nil {
		return nil, err
	}
	return s.start(ctx)
}

// withPool returns a store that is not started.
func withPool(pool *pgxpool.Pool, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(pool.Config(), o)
	s.pool, s.db = pool, pool
	return s, nil
}

func open(ctx context.Context, url string, o Options, adjust func(*pgxpool.Config)) (*Store, error) {
	s, err := connect(ctx, url, o, adjust)
	if err != nil {
		return nil, err
	}
	return s.start(ctx)
}

// connect returns a store that is not started. It makes no connection yet.
func connect(ctx context.Context, url string, o Options, adjust func(*pgxpool.Config)) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "open store", "", err)
	}
	config.MinConns = 0
	config.ConnConfig.ConnectTimeout = min(config.ConnConfig.ConnectTimeout, o.Patience)
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a statement finds a lost connection, and is retried
	config.ConnConfig.BuildContextWatcherHandler = cancelWithin(5 * time.Second)
	adjust(config)
	s := newStore(config, o)
	s.ownsPool = true
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, s.fail(ctx, "open store", s.name, err)
	}
	s.db = s.pool
	return s, nil
}

func newStore(config *pgxpool.Config, o Options) *Store {
	at := config.ConnConfig
	s := &Store{options: o, schema: pgx.Identifier{o.Schema}.Sanitize(),
		name:    fmt.Sprintf("%s:%d/%s, schema %s", at.Host, at.Port, at.Database, o.Schema),
		records: sqlstore.Records{Compressor: record.NewSqueezer(), CorruptHint: "restore the record from a backup of the database"}}
	if o.Tenant != "" {
		s.name += fmt.Sprintf(", tenant %q", o.Tenant)
	}
	// Waiting callers poll. At its commit, a transaction with NOTIFY would take a lock for which all others
	// with NOTIFY wait (PreCommit_Notify in PostgreSQL's async.c).
	s.common = sqlstore.NewCommon(s, database{s}, &s.records, &s.watch, s.dialect())
	return s
}

// start upgrades the schema to the current version.
func (s *Store) start(ctx context.Context) (*Store, error) {
	if err := s.withRetry(ctx, s.migrate); err != nil {
		s.closePool()
		return nil, s.fail(ctx, "open store", s.name, err)
	}
	s.db = s.forTenant(s.pool)
	return s, nil
}

// writeContext returns the context of a write: see [OpenPool].
func (s *Store) writeContext(ctx context.Context) context.Context {
	if s.ownsPool {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// Close waits for calls in progress, ends those that wait for a commit, and closes the connections that
// [Open] made. A second Close does nothing.
func (s *Store) Close() error {
	if s.calls.Close(s.watch.NotifyAll) {
		s.closePool()
	}
	return nil
}

func (s *Store) closePool() {
	if s.ownsPool {
		s.pool.Close()
	}
}

// sql replaces the placeholders in a query: "{}" with the schema, and "?" before the number of an argument
// with "$".
//
// In a store with tenants, every unique index begins with the tenant.
func (s *Store) sql(query string) string {
	if s.hasTenants {
		query = strings.ReplaceAll(query, "ON CONFLICT (", "ON CONFLICT (tenant, ")
	}
	return strings.ReplaceAll(strings.ReplaceAll(query, "{}", s.schema+"."), "?", "$")
}

// querier runs queries on the pool or in a transaction.
type querier struct {
	s  *Store
	on interface {
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	}
}

func (q querier) Query(ctx context.Context, query string, args, dest []any, each func() error) error {
	rows, err := q.on.Query(ctx, q.s.sql(query), args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, dest, each)
	}
	return err
}

// once calls f and returns its error with a kind. Close waits for it.
func (s *Store) once(ctx context.Context, op, name string, f func(context.Context) error) error {
	if err := s.calls.Begin(ctx, op); err != nil {
		return err
	}
	defer s.calls.End()
	return s.fail(ctx, op, name, f(ctx))
}

// call is once, but calls f again if a lost connection interrupted it.
func (s *Store) call(ctx context.Context, op, name string, f func(context.Context) error) error {
	return s.once(ctx, op, name, func(ctx context.Context) error { return s.withRetry(ctx, f) })
}

// database implements [sqlstore.Database].
type database struct{ *Store }

func (database) ID(id string) any { return []byte(id) }

func (d database) Read(ctx context.Context, op, name string, f func(context.Context, sqlstore.Querier) error) error {
	return d.call(ctx, op, name, func(ctx context.Context) error { return f(ctx, querier{d.Store, d.db}) })
}

func (d database) Change(ctx context.Context, op, name, query string, args ...any) (changed bool, err error) {
	err = d.call(ctx, op, name, func(ctx context.Context) error {
		tag, err := d.db.Exec(d.writeContext(ctx), d.sql(query), args...)
		changed = tag.RowsAffected() > 0
		return err
	})
	return changed, err
}

func (database) Missed(_ context.Context, op, _, id string) error { return notFound(op, id) }
