package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/dalsegno/segno/internal/vfs"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Store is a [segno.Store] in a directory. It also is [segno.Chains],
// [segno.Workspaces], [segno.Leaser], [segno.Collector], [segno.Eraser],
// [segno.Checker] and [segno.Watcher]. All methods may be called at once, by many processes on the same
// directory.
type Store struct {
	dir     string
	file    string // the database
	options Options
	db      *sql.DB
	squeeze *record.Squeezer
	seal    *record.Sealer // nil for a store without a key
	packs   *packFiles

	hasPhases   bool // false for a store of version 1 that was opened read-only
	hasTriggers bool // see phaseTriggers

	lines cache

	writer chan *conn // holds the one writing connection while nobody uses it
	idle   chan *conn // reading connections nobody uses
	opened atomic.Int32
	watch  *watch

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
	_ segno.Checker    = (*Store)(nil)
)

// Options are how a store is opened. The zero Options work.
type Options struct {
	// BusyTimeout is how long a writer waits for another process; 0 is 5 seconds.
	BusyTimeout time.Duration
	// Clock tells the age of objects to Collect and of leases; nil is time.Now.
	// No order is ever read from it.
	Clock func() time.Time
	// FS is what packs are written through; nil is the operating system.
	FS vfs.FS
	// MustExist refuses to make a new store: [segno.KindNotFound].
	MustExist bool
	// ReadOnly is MustExist, and refuses every write: [segno.KindRefused]. It also opens
	// a store that cannot be written, on a medium or in a directory that is read-only.
	ReadOnly bool
	// Key, if it is not nil, seals the store with AES-256: 32 random bytes, the same for
	// all who open it. A store is sealed from its beginning or never; a key that is not
	// its own is [segno.KindRefused]. A record that was changed, or moved to another row,
	// is [segno.KindCorrupt]; that one is gone, or is what the same row held before, the
	// file is believed.
	//
	// Who can read the files, and has not the key, learns the ids of threads, commits,
	// workspaces and operations, the tree of commits with its heads, turns and epochs,
	// which checkpoints have a pin and which are about equal things (a session, a key and
	// value of Meta, but not which), how long records and objects are, when objects
	// came, and until when leases last.
	Key []byte
}

func (o Options) withDefaults() Options {
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	o.MustExist = o.MustExist || o.ReadOnly
	return o
}

const (
	databaseName = "segno.db"
	packsName    = "packs"
)

// Open opens the store in a database file and makes it if it is not there; what is
// bulky lies beside it, in the file's name with .packs. It is what a program with a
// store of its own needs; errors are those of [OpenDir].
func Open(file string) (*Store, error) {
	// Opening waits for nobody but another that opens, and for no longer than
	// BusyTimeout.
	return OpenFile(context.Background(), file, Options{})
}

// OpenFile is [Open] with options.
func OpenFile(ctx context.Context, file string, o Options) (*Store, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fail("open store", file, err)
	}
	return open(ctx, filepath.Dir(file), file, file+".packs", o)
}

// OpenDir opens the store in dir and makes it if it is not there: dir 0700, its
// database 0600. A store written by a newer segno is [segno.KindNewer], one that
// is damaged [segno.KindCorrupt]; neither is changed.
func OpenDir(ctx context.Context, dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail("open store", dir, err)
	}
	return open(ctx, dir, filepath.Join(dir, databaseName), filepath.Join(dir, packsName), o)
}

func open(ctx context.Context, dir, file, packs string, o Options) (_ *Store, err error) {
	const op = "open store"
	s := &Store{dir: dir, file: file, options: o.withDefaults(), squeeze: record.NewSqueezer(), packs: newPackFiles(packs),
		writer: make(chan *conn, 1), idle: make(chan *conn, readers)}
	s.watch = s.newWatch()
	if err := record.CheckKey(o.Key); err != nil {
		return nil, fail(op, dir, err)
	}
	if err := s.prepare(); err != nil {
		return nil, fail(op, dir, err)
	}
	if s.db, err = sql.Open("sqlite", s.dsn()); err != nil {
		return nil, fail(op, dir, err)
	}
	c, err := s.connect(ctx)
	if err == nil {
		if err = s.patiently(ctx, c, s.ensureSchema); err != nil {
			c.close()
		}
	}
	if err != nil {
		s.db.Close()
		return nil, fail(op, dir, err)
	}
	s.writer <- c
	return s, nil
}

// Path is the database's file.
func (s *Store) Path() string { return s.file }

// prepare makes the directory and an empty database file, so that SQLite finds
// one with the right mode.
func (s *Store) prepare() error {
	_, err := os.Lstat(s.file)
	if err == nil {
		return checkLog(s.file)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.options.MustExist {
		return segno.Errorf(segno.KindNotFound, "open store", s.dir, "there is no store")
	}
	if err := s.orphanedPacks(); err != nil {
		return err
	}
	if err := makeDurable(s.options.FS, s.dir); err != nil {
		return err
	}
	f, err := s.options.FS.OpenFile(s.file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another was first; see checkSize for why it is not opened
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// orphanedPacks refuses to begin anew beside packs whose database is gone.
func (s *Store) orphanedPacks() error {
	names, err := os.ReadDir(s.packs.dir)
	if err != nil || len(names) == 0 {
		return nil
	}
	return segno.Errorf(segno.KindCorrupt, "open store", s.dir, "%s is gone and %d packs are left", filepath.Base(s.file), len(names)).WithHint("put " + filepath.Base(s.file) + " back from a backup, or move the directory aside to begin anew")
}

// dsn names the database. Both settings are per connection and cost no reading.
func (s *Store) dsn() string {
	query := url.Values{
		"_busy_timeout": {fmt.Sprint(s.options.BusyTimeout.Milliseconds())},
		"_synchronous":  {"FULL"},
	}
	if s.options.ReadOnly && !s.writable() {
		// SQLite makes files beside a database in WAL mode, also to read it. Without a
		// log there is nothing that those files would protect.
		query.Set("mode", "ro")
		if fi, err := os.Lstat(s.file + "-wal"); errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() == 0 {
			query.Set("immutable", "1")
		}
	}
	name := url.URL{Scheme: "file", Path: s.file, RawQuery: query.Encode()}
	return name.String()
}

// writable reports whether the database and what lies beside it can be written.
func (s *Store) writable() bool { return canWrite(s.dir) && canWrite(s.file) }

// patiently repeats f while the database is busy, as long as a writer would wait.
// SQLite does not wait by itself where it turns to WAL mode, or recovers its log.
func (s *Store) patiently(ctx context.Context, c *conn, f func(context.Context, *conn) error) error {
	const pause = 5 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for waited := time.Duration(0); ; waited += pause {
		err := f(ctx, c)
		if err == nil || kindOf(err) != segno.KindBusy || waited >= s.options.BusyTimeout {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ensureSchema checks the version, and makes the schema in an empty database.
func (s *Store) ensureSchema(ctx context.Context, c *conn) error {
	version, sealed, err := c.version(ctx)
	if err == nil {
		err = checkSize(ctx, c, s.file)
	}
	if err != nil {
		return err
	}
	switch {
	case version == schemaVersion || version == 1:
		if err := checkSchema(ctx, c, schemaOf(version)); err != nil {
			return err
		}
		if version == 1 && !s.options.ReadOnly {
			if err := c.transaction(ctx, addPhases); err != nil {
				return err
			}
			version = schemaVersion
		}
		s.hasPhases = version == schemaVersion
		if _, err := c.row(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger')", nil, &s.hasTriggers); err != nil {
			return err
		}
		return s.unlock(ctx, c, sealed)
	case version > schemaVersion:
		return segno.Errorf(segno.KindNewer, "open store", s.dir, "the store has version %d, this segno knows %d", version, schemaVersion).WithHint("use the newest segno you have on this machine")
	case s.options.ReadOnly:
		return notFound("open store", s.dir)
	}
	// SQLite knows the size of a page from the first write on.
	if _, err := c.sql.ExecContext(ctx, fmt.Sprintf("PRAGMA page_size=%d", pageSize)); err != nil {
		return err
	}
	// Evidence is looked at before anything is written, and the log's mode cannot
	// be set in a transaction: hence two of them.
	if err := c.transaction(ctx, func(ctx context.Context, c *conn) error {
		_, err := s.isNew(ctx, c)
		return err
	}); err != nil {
		return err
	}
	if _, err := c.sql.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	return c.transaction(ctx, func(ctx context.Context, c *conn) error {
		isNew, err := s.isNew(ctx, c)
		if err != nil {
			return err
		}
		s.hasPhases = true
		if !isNew {
			_, sealed, err := c.version(ctx)
			return errors.Join(err, s.unlock(ctx, c, sealed))
		}
		version, err := s.mark(ctx, c)
		if err != nil {
			return err
		}
		_, err = c.sql.ExecContext(ctx, schemaOf(schemaVersion)+fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d;", applicationID, version))
		return err
	})
}

// isNew reports whether the database is empty and may be made; if it has the
// schema, another process was first.
func (s *Store) isNew(ctx context.Context, c *conn) (bool, error) {
	var tables int
	version, _, err := c.version(ctx)
	if err != nil || version == schemaVersion {
		return false, err
	}
	if _, err := c.row(ctx, "SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
		return false, err
	}
	if tables > 0 {
		return false, corrupt("open store", s.dir, errors.New(filepath.Base(s.file)+" is not a segno database"))
	}
	return true, s.orphanedPacks()
}

// enter begins a call; calls.Done ends it.
func (s *Store) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return fail(op, "", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	s.calls.Add(1)
	return nil
}

// Close waits for calls under way, ends who waits for a thread, and closes the store.
// Batches that were not staged are lost. Closing twice is closing once.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.watch.notifier.NotifyAll()
	s.calls.Wait()
	if again {
		return nil
	}
	var errs []error
	for n := s.opened.Load(); n > 0; n-- {
		errs = append(errs, (<-s.idle).close())
	}
	errs = append(errs, (<-s.writer).close(), s.watch.close(), s.db.Close(), s.packs.close())
	return fail("close store", s.dir, errors.Join(errs...))
}
