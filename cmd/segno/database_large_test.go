package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/workspace"
)

// interruptedDriver calls atLock before a move locks the tables of a database.
type interruptedDriver struct {
	postgresDriver
	atLock func()
}

func (d *interruptedDriver) Connect(ctx context.Context, url string) (database.PostgresConn, error) {
	c, err := d.postgresDriver.Connect(ctx, url)
	return &interruptedConn{c, d}, err
}

type interruptedConn struct {
	database.PostgresConn
	driver *interruptedDriver
}

func (c *interruptedConn) Exec(ctx context.Context, sql string) ([][]string, error) {
	if f := c.driver.atLock; f != nil && strings.HasPrefix(sql, "LOCK TABLE") {
		c.driver.atLock = nil
		f()
	}
	return c.PostgresConn.Exec(ctx, sql)
}

// plainFiles is the sealer of a store that is not sealed.
type plainFiles struct{}

func (plainFiles) SealFile(_ string, plain []byte) []byte         { return plain }
func (plainFiles) OpenFile(_ string, data []byte) ([]byte, error) { return data, nil }

// TestAWriteToALargeObjectIsAConflict lets another program write into a large object after a move has read the database, and before the
// move locks it. The move must not undo that write.
func TestAWriteToALargeObjectIsAConflict(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int); SELECT lo_from_bytea(4711, 'old')`)
	ctx, store, driver := t.Context(), memory.New(nil), &interruptedDriver{}
	defer store.Close()
	at, err := database.NewPostgres(ctx, driver, p.url(p.database), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := workspace.Open(p.dir, workspace.Options{ID: "w", Objects: store.Objects()})
	if err != nil {
		t.Fatal(err)
	}
	w := database.Attach(files, database.Options{Objects: store.Objects(), Postgres: driver, Now: time.Now,
		List:  func() ([]database.Attachment, error) { return []database.Attachment{at}, nil },
		Lock:  func(context.Context, string) (func(), error) { return func() {}, nil },
		Cache: database.Cache{FS: vfs.OS, File: filepath.Join(p.home, "cache"), Sealer: plainFiles{}}})
	snapshot := func() *segno.Document {
		t.Helper()
		batch := store.Objects().Batch()
		defer batch.Close()
		snap, err := w.Snapshot(ctx, batch)
		if err != nil {
			t.Fatal(err)
		}
		staged, err := batch.Stage(ctx)
		if err == nil {
			err = store.Objects().Keep(ctx, staged)
		}
		if err != nil {
			t.Fatal(err)
		}
		return snap.World
	}
	before := snapshot()
	p.sql(`INSERT INTO t VALUES (1)`)
	changes, err := w.DiffDatabases(ctx, snapshot(), before)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	driver.atLock = func() { p.sql(`SELECT lo_put(4711, 0, 'new')`) }
	conflicts, err := w.Apply(ctx, changes, segno.Hash{})
	if err != nil || len(conflicts) != 1 {
		t.Errorf("the conflicts are %v, %v", conflicts, err)
	}
	p.want("the large object", p.sql(`SELECT convert_from(lo_get(4711), 'UTF8')`), "new")
	driver.atLock = func() {}
	changes, err = w.DiffDatabases(ctx, snapshot(), before)
	if err == nil {
		conflicts, err = w.Apply(ctx, changes, segno.Hash{})
	}
	if err != nil || len(conflicts) > 0 {
		t.Errorf("without another program, the conflicts are %v, %v", conflicts, err)
	}
	p.want("the large object after the move", p.sql(`SELECT convert_from(lo_get(4711), 'UTF8')`), "old")
}
