package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/sqlite/internal/checksumvfs"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Store is a [segno.Store] in a database file. It also implements [segno.Chains], [segno.Workspaces],
// [segno.Leaser], [segno.Collector], [segno.Eraser], [segno.Checker] and [segno.Watcher]. All methods may be
// called concurrently, by many processes on the same file.
type Store struct {
	*common

	dir     string
	file    string // the database
	options Options
	db      *sql.DB
	ownsDB  bool
	records sqlstore.Records
	packs   *packFiles
	lines   cache
	watch   sqlstore.Watch
	calls   sqlstore.Calls

	hasPhases   bool // false for a store of version 1 that was opened read-only
	hasTriggers bool // see phaseTriggers
	hasSums     bool // the pages have checksums

	writer  chan *conn // holds the writing connection while it is free
	readers chan *conn // holds the free reading connections
	opened  atomic.Int32
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
	// BusyTimeout is how long a writer waits for another process; 0 means 5 seconds.
	BusyTimeout time.Duration
	// Clock returns the time for the age of objects and of leases; nil means time.Now. No order depends on
	// it.
	Clock func() time.Time
	// Packs is the directory of the packs; "" means the file's name with ".packs". It must be the same
	// whenever the store is opened.
	Packs string
	// FS writes the packs; nil means the operating system.
	FS vfs.FS
	// ReadOnly makes Open return [segno.KindNotFound] instead of creating a store, and makes every write
	// return [segno.KindRefused]. It also opens a store on a read-only medium or in a directory without write
	// permission.
	ReadOnly bool
	// Full opens a store on a full disk for reading: SQLite creates no file beside the database. Every write
	// is [segno.KindIO] with ENOSPC. The store must have been closed cleanly.
	Full bool
	// Key, if not nil, seals the store with AES-256. It is 32 random bytes, the same for all processes. A
	// file is sealed from its creation or never, see [Store.Convert]. A wrong key is [segno.KindRefused]. A
	// record that was changed or moved to another row is [segno.KindCorrupt]. A key cannot detect that a row
	// was deleted, or replaced by an older version of the same row.
	//
	// A reader of the files without the key learns the ids of threads, commits, workspaces and operations;
	// the tree of commits with its heads, turns and epochs; which checkpoints have a pin; which checkpoints
	// have an equal session or an equal pair in Meta, but not its value; the lengths of records and objects;
	// when objects were added; when leases expire.
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
	o.ReadOnly = o.ReadOnly || o.Full
	return o
}

// Open opens the store in a database file. It creates the file (mode 0600) and its directory (mode 0700) if
// they are missing. The error is [segno.KindNewer] for a store that a newer segno wrote, and
// [segno.KindCorrupt] for a damaged one. Open changes neither.
func Open(ctx context.Context, file string, o Options) (*Store, error) {
	s, err := newStore(file, o)
	if err == nil {
		err = s.prepareFile()
	}
	if err == nil {
		err = checksumvfs.Register()
	}
	if err == nil {
		s.ownsDB = true
		s.db, err = sql.Open("sqlite", s.dataSource())
	}
	if err != nil {
		return nil, fail("open store", filepath.Dir(file), err)
	}
	return s.start(ctx)
}

// OpenDB is [Open] with the connections of db, a database file that was opened with the driver
// modernc.org/sqlite. The caller closes db, after the store. The store sets the busy timeout and synchronous
// FULL on the connections that it uses (NORMAL for commits that are [segno.Batched]), and WAL mode on the
// database.
//
// Open detects that the log of a database was lost, and can open a database on a read-only medium. OpenDB
// does neither, because db may have opened the file before.
//
// If the name of db has the parameter vfs, the store has checksums of its pages, as in a store that Open
// created; see [VFS]. If the name does not have it, OpenDB returns [segno.KindRefused] for a store with
// checksums.
func OpenDB(ctx context.Context, db *sql.DB, o Options) (*Store, error) {
	const op = "open store"
	if n := db.Stats().MaxOpenConnections; n > 0 && n < maxConns {
		return nil, segno.Errorf(segno.KindInvalid, op, "", "the database allows %d connections, and the store needs %d", n, maxConns)
	}
	var number int
	var name, file string
	if err := db.QueryRowContext(ctx, "PRAGMA database_list").Scan(&number, &name, &file); err != nil {
		return nil, fail(op, "", err)
	}
	if file == "" {
		return nil, segno.Errorf(segno.KindInvalid, op, "", "the database is not in a file")
	}
	s, err := newStore(file, o)
	if err != nil {
		return nil, fail(op, file, err)
	}
	s.db = db
	return s.start(ctx)
}

// VFS returns the name of the VFS that maintains the checksums of pages. It belongs in the database name for
// [OpenDB]:
//
//	vfs, err := sqlite.VFS()
//	db, err := sql.Open("sqlite", "file:agent.db?vfs="+vfs)
func VFS() (name string, err error) { return checksumvfs.Name, checksumvfs.Register() }

func newStore(file string, o Options) (*Store, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	packs, err := filepath.Abs(cmp.Or(o.Packs, file+".packs"))
	if err != nil {
		return nil, err
	}
	s := &Store{dir: filepath.Dir(file), file: file, options: o.withDefaults(), packs: newPackFiles(packs),
		records: sqlstore.Records{Compressor: record.NewSqueezer(), CorruptHint: "run 'segno check' to list all damage"},
		writer:  make(chan *conn, 1), readers: make(chan *conn, maxReaders)}
	s.common = sqlstore.NewCommon(s, database{s}, &s.records, &s.watch, s.dialect())
	return s, record.CheckKey(o.Key)
}

// start opens the writing connection and upgrades the schema to the current version.
func (s *Store) start(ctx context.Context) (*Store, error) {
	c, err := s.connect(ctx)
	if err == nil {
		if err = s.retryWhileBusy(ctx, c, s.ensureSchema); err != nil {
			_ = c.close() // nothing was written
		}
	}
	if err != nil {
		_ = s.closeDB()
		return nil, fail("open store", s.dir, err)
	}
	s.writer <- c
	return s, nil
}

// Path returns the path of the database file.
func (s *Store) Path() string { return s.file }

// prepareFile creates the directory and an empty database file with the right mode, if they are missing.
func (s *Store) prepareFile() error {
	_, err := os.Lstat(s.file)
	if err == nil {
		return checkLog(s.file)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.checkOrphanedPacks(); err != nil {
		return err
	}
	if s.options.ReadOnly {
		return segno.Errorf(segno.KindNotFound, "open store", s.dir, "the store does not exist")
	}
	if err := makeDurable(s.options.FS, s.dir); err != nil {
		return err
	}
	f, err := s.options.FS.OpenFile(s.file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process created it; see checkSize for why this one does not open the file
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// checkOrphanedPacks returns an error if there are packs without a database.
func (s *Store) checkOrphanedPacks() error {
	names, err := os.ReadDir(s.packs.dir)
	if err != nil || len(names) == 0 {
		return nil
	}
	base := filepath.Base(s.file)
	return segno.Errorf(segno.KindCorrupt, "open store", s.dir, "%s is missing, but there are %d packs", base, len(names)).
		WithHint("put " + base + " back from a backup, or move the directory aside to start with an empty store")
}

// dataSource returns the name of the database for the driver, with the settings of each connection.
func (s *Store) dataSource() string {
	query := url.Values{
		"_busy_timeout": {fmt.Sprint(s.options.BusyTimeout.Milliseconds())},
		"_synchronous":  {"FULL"},
		"vfs":           {checksumvfs.Name},
	}
	if s.options.Full || s.options.ReadOnly && (unix.Access(s.dir, unix.W_OK) != nil || unix.Access(s.file, unix.W_OK) != nil) {
		// SQLite creates files beside a database in WAL mode, even for reading. They protect the log, so they
		// are not needed without a log.
		query.Set("mode", "ro")
		if fi, err := os.Lstat(s.file + "-wal"); errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() == 0 {
			query.Set("immutable", "1")
		}
	}
	name := url.URL{Scheme: "file", Path: s.file, RawQuery: query.Encode()}
	return name.String()
}

// retryWhileBusy repeats f while the database is busy, for at most the time that a writer would wait. SQLite
// itself does not wait when it changes to WAL mode or recovers its log.
func (s *Store) retryWhileBusy(ctx context.Context, c *conn, f func(context.Context, *conn) error) error {
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

// Close waits for calls in progress, ends those that wait for a commit, and closes the store. Batches that
// were not staged are lost. A second Close does nothing.
func (s *Store) Close() error {
	if !s.calls.Close(s.watch.NotifyAll) {
		return nil
	}
	var errs []error
	for n := s.opened.Load(); n > 0; n-- {
		errs = append(errs, (<-s.readers).close())
	}
	errs = append(errs, (<-s.writer).close(), s.closeDB(), s.packs.close())
	return fail("close store", s.dir, errors.Join(errs...))
}

func (s *Store) closeDB() error {
	if !s.ownsDB {
		return nil
	}
	return s.db.Close()
}
