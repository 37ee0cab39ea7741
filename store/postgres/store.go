package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"gocloud.dev/blob"
)

// Store is a [segno.Store] in a schema of a PostgreSQL database. It also is
// [segno.Chains], [segno.Workspaces], [segno.Leaser], [segno.Collector], [segno.Eraser]
// and [segno.Watcher]. All methods may be called at once, by many processes on many machines.
type Store struct {
	options Options
	name    string // host, database and schema, for errors; never the password
	schema  string // quoted
	id      string // of the store, drawn when it was made
	pool    *pgxpool.Pool
	squeeze *record.Squeezer
	seal    *record.Sealer // nil for a store without a key
	sealed  bool           // what the database says
	watch   *watch

	mu     sync.Mutex // guards closed and the first Add of calls
	closed bool
	calls  sync.WaitGroup
}

var (
	_ segno.Store      = (*Store)(nil)
	_ segno.Chains     = (*Store)(nil)
	_ segno.Workspaces = (*Store)(nil)
	_ segno.Leaser     = (*Store)(nil)
	_ segno.Collector  = (*Store)(nil)
	_ segno.Eraser     = (*Store)(nil)
)

// Options are how a store is opened. The zero Options work.
type Options struct {
	// Bucket takes bodies above 256 KB; nil keeps them in a table. It must be the
	// same for all who open the store, and stays the caller's to close.
	Bucket *blob.Bucket
	// Schema is the schema the store lives in, made if it is not there: letters,
	// digits and underscores. Empty is "segno".
	Schema string
	// Clock tells the age of objects and of leases; nil is time.Now for objects and
	// the server's clock for leases. No order is ever read from it.
	Clock func() time.Time
	// MaxConns is how many connections are opened at most; 0 is what the URL says,
	// or 4, or the number of CPUs if that is more.
	MaxConns int32
	// Patience is how long a call goes on trying with a server that is not to be
	// had; 0 is 5 seconds. A context ends it earlier.
	Patience time.Duration
	// Key, if it is not nil, seals the store with AES-256: 32 random bytes, the same for
	// all who open it. A store is sealed from its beginning or never; a key that is not
	// its own is [segno.KindRefused]. A record that was changed, or moved to another row,
	// is [segno.KindCorrupt]; that one is gone, or is what the same row held before, the
	// database is believed.
	//
	// Who can read the database and the bucket, and has not the key, learns the ids of
	// threads, commits, workspaces and operations, the tree of commits with its heads, epochs and
	// turns, which checkpoints have a pin and which are about equal things (a session, a
	// key and value of Meta, but not which), how long records and objects are, when
	// objects came, and until when leases last.
	Key []byte
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = "segno"
	}
	if !plainName.MatchString(o.Schema) {
		return o, segno.Errorf(segno.KindInvalid, "open store", o.Schema, "a schema is named by letters, digits and underscores")
	}
	if err := record.CheckKey(o.Key); err != nil {
		return o, err
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	return o, nil
}

// now is the time by which objects age.
func (o *Options) now() time.Time {
	if o.Clock == nil {
		return time.Now()
	}
	return o.Clock()
}

// Open opens the store in a database and makes it if it is not there. url is what
// PostgreSQL's own programs take, "postgres://user:password@host:port/database". A store
// written by a newer segno is [segno.KindNewer], and is not changed.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o, func(*pgxpool.Config) {})
}

func open(ctx context.Context, url string, o Options, adjust func(*pgxpool.Config)) (*Store, error) {
	const op = "open store"
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, op, "", err)
	}
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	}
	config.MinConns = 0
	config.ConnConfig.ConnectTimeout = min(config.ConnConfig.ConnectTimeout, o.Patience)
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a lost connection is found out by using it
	config.ConnConfig.BuildContextWatcherHandler = askForTheEnd
	adjust(config)
	at := config.ConnConfig
	s := &Store{options: o, schema: pgx.Identifier{o.Schema}.Sanitize(), squeeze: record.NewSqueezer(),
		name: fmt.Sprintf("%s:%d/%s, schema %s", at.Host, at.Port, at.Database, o.Schema)}
	s.watch = s.newWatch()
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, s.fail(ctx, op, s.name, err)
	}
	if err := s.patiently(ctx, s.migrate); err != nil {
		s.pool.Close()
		return nil, s.fail(ctx, op, s.name, err)
	}
	return s, nil
}

// askForTheEnd has the server end a statement whose context ends, and waits for what it
// says: a statement that is merely abandoned may be carried out later.
func askForTheEnd(c *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 5 * time.Second}
}

// sql puts the schema's name into a statement.
func (s *Store) sql(query string) string { return strings.ReplaceAll(query, "{}", s.schema+".") }

// enter begins a call; calls.Done ends it.
func (s *Store) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return segno.NewError(segno.KindCancelled, op, "", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	s.calls.Add(1)
	return nil
}

// Close waits for calls under way and closes the connections. Closing twice is closing
// once.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.watch.notifier.NotifyAll()
	s.calls.Wait()
	s.pool.Close()
	return nil
}

// row reads one row; without one the error is [segno.KindNotFound].
func (s *Store) row(ctx context.Context, op, name, query string, args []any, dest ...any) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.calls.Done()
	err := s.patiently(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.sql(query), args...).Scan(dest...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound(op, name)
	}
	return s.fail(ctx, op, name, err)
}

// rows reads all rows. A query that broke off is asked again from its beginning, after
// reset.
func (s *Store) rows(ctx context.Context, op, name, query string, args []any, reset func(), each func(pgx.Rows) error) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.calls.Done()
	err := s.patiently(ctx, func(ctx context.Context) error {
		reset()
		found, err := s.pool.Query(ctx, s.sql(query), args...)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			if err := each(found); err != nil {
				return err
			}
		}
		return found.Err()
	})
	return s.fail(ctx, op, name, err)
}

// change carries out one statement that may be carried out twice, and reports whether
// it changed a row, or may have before an answer was lost.
func (s *Store) change(ctx context.Context, op, name, query string, args ...any) (changed bool, err error) {
	if err := s.enter(ctx, op); err != nil {
		return false, err
	}
	defer s.calls.Done()
	err = s.patiently(ctx, func(ctx context.Context) error {
		tag, err := s.pool.Exec(ctx, s.sql(query), args...)
		changed = changed || tag.RowsAffected() > 0 || err != nil && !sure(err)
		return err
	})
	return changed, s.fail(ctx, op, name, err)
}
