package database_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
)

// emptyTree is a workspace without files. It records the steps for files that it receives.
type emptyTree struct {
	segno.Workspace
	root string
}

func (w *emptyTree) Root() string { return w.root }

func (w *emptyTree) Snapshot(context.Context, segno.Batch) (segno.Snapshot, error) {
	return segno.Snapshot{}, nil
}

func (w *emptyTree) Apply(_ context.Context, steps []segno.Change, _ segno.Hash) (conflicts []segno.Conflict, err error) {
	for _, s := range steps {
		conflicts = append(conflicts, segno.Conflict{Path: s.Path, Why: "a file"})
	}
	return conflicts, nil
}

type plainSealer struct{}

func (plainSealer) SealFile(_ string, data []byte) []byte          { return data }
func (plainSealer) OpenFile(_ string, data []byte) ([]byte, error) { return data, nil }

type fixture struct {
	testing.TB
	dir, file string
	objects   segno.Objects
	now       time.Time
	fs        vfs.FS
}

func newFixture(t testing.TB) *fixture {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(time.Now)
	t.Cleanup(func() { store.Close() })
	return &fixture{TB: t, dir: dir, file: filepath.Join(dir, "dev.db"), objects: store.Objects(),
		now: time.Now().Add(time.Hour), fs: vfs.OS}
}

func noLock(context.Context, string) (func(), error) { return func() {}, nil }

func attachedFile() ([]database.Attachment, error) {
	return []database.Attachment{{Name: "dev.db", Kind: database.KindSQLite, Path: "dev.db"}}, nil
}

// attached returns the workspace with the database. If cache is not set, each snapshot reads the database.
func (f *fixture) attached(cache bool) *database.Attached {
	o := database.Options{Objects: f.objects, FS: f.fs, Now: func() time.Time { return f.now },
		List: attachedFile, Lock: noLock,
		Cache: database.Cache{FS: vfs.OS, Sealer: plainSealer{}, File: filepath.Join(f.dir, "no", "cache")}}
	if cache {
		o.Cache.File = filepath.Join(f.dir, "cache")
	}
	return database.Attach(&emptyTree{root: f.dir}, o)
}

// snapshot saves the database and makes its objects durable.
func (f *fixture) snapshot(w *database.Attached) *segno.Snapshot {
	f.Helper()
	b := f.objects.Batch()
	snap, err := w.Snapshot(f.Context(), b)
	if err != nil {
		f.Fatal(err)
	}
	staged, err := b.Stage(f.Context())
	if err == nil {
		err = f.objects.Keep(f.Context(), staged)
	}
	if err != nil {
		f.Fatal(err)
	}
	return &snap
}

// document returns the JSON of a snapshot's document.
func (f *fixture) document(s *segno.Snapshot) string {
	f.Helper()
	data, err := f.objects.Get(f.Context(), s.World.Data)
	if err != nil {
		f.Fatal(err)
	}
	return string(data)
}

// open returns one connection to the database.
func (f *fixture) open() *sql.DB {
	f.Helper()
	db, err := sql.Open("sqlite", f.file)
	if err != nil {
		f.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	f.Cleanup(func() { db.Close() })
	return db
}

func (f *fixture) exec(db *sql.DB, statements ...string) {
	f.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(f.Context(), s); err != nil {
			f.Fatalf("%s: %v", s, err)
		}
	}
}

// sql runs statements with a connection that it closes.
func (f *fixture) sql(statements ...string) {
	f.Helper()
	db := f.open()
	f.exec(db, statements...)
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
}

// value returns the result of a query as text.
func (f *fixture) value(query string) string {
	f.Helper()
	db := f.open()
	defer db.Close()
	var v string
	if err := db.QueryRowContext(f.Context(), query).Scan(&v); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	return v
}

// pages returns the pages that SQLite reads, without the bytes that are not part of the content. It uses a new
// connection, because a connection caches free pages with contents that it does not write.
func (f *fixture) pages() (all []byte) {
	f.Helper()
	db := f.open()
	defer db.Close()
	rows, err := db.QueryContext(f.Context(), "SELECT data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var page []byte
		if err := rows.Scan(&page); err != nil {
			f.Fatal(err)
		}
		all = append(all, page...)
	}
	if rows.Err() != nil {
		f.Fatal(rows.Err())
	}
	return withoutHeader(all)
}

// savedPages returns the pages of a snapshot in the same form.
func (f *fixture) savedPages(s *segno.Snapshot) []byte {
	f.Helper()
	exports, err := database.Exports(f.Context(), f.objects, s.World)
	if err != nil || len(exports) != 1 {
		f.Fatal(exports, err)
	}
	var b bytes.Buffer
	if err := exports[0].Write(&b); err != nil {
		f.Fatal(err)
	}
	return withoutHeader(b.Bytes())
}

func withoutHeader(pages []byte) []byte {
	if len(pages) >= 100 {
		clear(pages[18:20])
		clear(pages[24:28])
		clear(pages[92:100])
	}
	return pages
}

// move moves the database from one state to another, and returns the reasons for conflicts.
func (f *fixture) move(w *database.Attached, from, to *segno.Snapshot) string {
	f.Helper()
	changes, err := w.DiffDatabases(f.Context(), from.World, to.World)
	if err != nil {
		f.Fatal(err)
	}
	conflicts, err := w.Apply(f.Context(), changes, segno.Hash{})
	if err != nil {
		f.Fatal(err)
	}
	var why []string
	for _, c := range conflicts {
		why = append(why, c.Why)
	}
	return strings.Join(why, "; ")
}

// names returns the names of the files in the directory, without the cache.
func (f *fixture) names() string {
	f.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	for _, e := range entries {
		if e.Name() != "cache" {
			b.WriteString(e.Name() + " ")
		}
	}
	return strings.TrimSpace(b.String())
}
