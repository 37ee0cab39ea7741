package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/workspace"
)

// interruptedDriver calls a function once, before the first statement with a prefix.
type interruptedDriver struct {
	postgresDriver
	prefix string
	call   func()
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
	if f := c.driver.call; f != nil && strings.HasPrefix(sql, c.driver.prefix) {
		c.driver.call = nil
		f()
	}
	return c.PostgresConn.Exec(ctx, sql)
}

// plainFiles is the sealer of a store that is not sealed.
type plainFiles struct{}

func (plainFiles) SealFile(_ string, plain []byte) []byte         { return plain }
func (plainFiles) OpenFile(_ string, data []byte) ([]byte, error) { return data, nil }

// attached returns the directory of a project with its database, as a store in memory saves them, and a function that takes a snapshot.
func (p *project) attached(driver database.Postgres) (*database.Attached, func() segno.Snapshot) {
	p.Helper()
	ctx, store := context.Background(), memory.New(nil)
	p.Cleanup(func() { store.Close() })
	at, err := database.NewPostgres(ctx, driver, p.url(p.database), nil)
	if err != nil {
		p.Fatal(err)
	}
	files, err := workspace.Open(p.dir, workspace.Options{ID: "w", Objects: store.Objects()})
	if err != nil {
		p.Fatal(err)
	}
	w := database.Attach(files, database.Options{Objects: store.Objects(), Postgres: driver, Now: time.Now,
		List:  func() ([]database.Attachment, error) { return []database.Attachment{at}, nil },
		Lock:  func(context.Context, string) (func(), error) { return func() {}, nil },
		Cache: database.Cache{FS: vfs.OS, File: filepath.Join(p.home, "cache"), Sealer: plainFiles{}}})
	return w, func() segno.Snapshot {
		p.Helper()
		batch := store.Objects().Batch()
		defer batch.Close()
		snap, err := w.Snapshot(ctx, batch)
		if err != nil {
			p.Fatal(err)
		}
		staged, err := batch.Stage(ctx)
		if err == nil {
			err = store.Objects().Keep(ctx, staged)
		}
		if err != nil {
			p.Fatal(err)
		}
		return snap
	}
}

// TestACancelledForkLeavesNoDatabase cancels a fork after the copy of the database was loaded, while its properties are copied. The next fork
// must not find a database with the name of the copy.
func TestACancelledForkLeavesNoDatabase(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int)`)
	driver := &interruptedDriver{prefix: "COMMENT ON DATABASE"}
	w, snapshot := p.attached(driver)
	p.admin("COMMENT ON DATABASE " + p.database + " IS 'a database'")
	snap := snapshot()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	driver.call = func() { // another program keeps the statement waiting, and the fork is cancelled meanwhile
		other := p.connect("postgres")
		if _, err := (postgresConn{other}).Exec(t.Context(), "BEGIN; COMMENT ON DATABASE "+p.database+"_copy IS 'x'"); err != nil {
			t.Error(err)
		}
		ended.Go(func() {
			for p.admin("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COMMENT ON DATABASE "+p.database+"%'") == "0" {
			}
			cancel()
			_ = other.Close(context.Background())
		})
	}
	if _, err := w.Fork(ctx, snap, filepath.Join(p.home, "copy")); err == nil {
		t.Error("the fork was not cancelled")
	}
	p.want("the databases", p.admin("SELECT count(*) FROM pg_database WHERE datname LIKE '"+p.database+"%'"), "1")
	p.admin("DROP DATABASE IF EXISTS " + p.database + "_copy")
}

// TestAWriteToALargeObjectIsAConflict lets another program write into a large object after a move has read the database, and before the
// move locks it. The move must not undo that write.
func TestAWriteToALargeObjectIsAConflict(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int); SELECT lo_from_bytea(4711, 'old')`)
	driver := &interruptedDriver{prefix: "LOCK TABLE"}
	w, snapshot := p.attached(driver)
	ctx := t.Context()
	before := snapshot().World
	p.sql(`INSERT INTO t VALUES (1)`)
	changes, err := w.DiffDatabases(ctx, snapshot().World, before)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	driver.call = func() { p.sql(`SELECT lo_put(4711, 0, 'new')`) }
	conflicts, err := w.Apply(ctx, changes, segno.Hash{})
	if err != nil || len(conflicts) != 1 {
		t.Errorf("the conflicts are %v, %v", conflicts, err)
	}
	p.want("the large object", p.sql(`SELECT convert_from(lo_get(4711), 'UTF8')`), "new")
	changes, err = w.DiffDatabases(ctx, snapshot().World, before)
	if err == nil {
		conflicts, err = w.Apply(ctx, changes, segno.Hash{})
	}
	if err != nil || len(conflicts) > 0 {
		t.Errorf("without another program, the conflicts are %v, %v", conflicts, err)
	}
	p.want("the large object after the move", p.sql(`SELECT convert_from(lo_get(4711), 'UTF8')`), "old")
}
