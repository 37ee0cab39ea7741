package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
)

const databaseName = "segno.db"

// openDir opens a store in the layout that the command uses. Unless o says otherwise, its writers wait for each other as long as they need
// on a busy machine.
func openDir(ctx context.Context, dir string, o Options) (*Store, error) {
	o.Packs, o.BusyTimeout = filepath.Join(dir, "packs"), cmp.Or(o.BusyTimeout, 5*time.Minute)
	return Open(ctx, filepath.Join(dir, databaseName), o)
}

func openIn(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := openDir(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) { testStore(t, func(s *Store) segno.Store { return s }) }

// batchedStore is a store whose commits are all batched.
type batchedStore struct{ *Store }

func (s batchedStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	c.Durability = segno.Batched
	return s.Store.Commit(ctx, c)
}

// TestBatchedStore makes every commit of the contract's tests a batched one. It is in the campaigns and, because it repeats
// TestStore, in an eighth of the other runs.
func TestBatchedStore(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return
	}
	testStore(t, func(s *Store) segno.Store { return batchedStore{s} })
}

func testStore(t *testing.T, as func(*Store) segno.Store) {
	storeOf := func(s segno.Store) *Store {
		if b, ok := s.(batchedStore); ok {
			return b.Store
		}
		return s.(*Store)
	}
	clock := storetest.NewClock()
	disk := &faultfs.Limited{FS: vfs.OS}
	o := Options{Clock: clock.Now, FS: disk}
	reopen := func(t *testing.T, s segno.Store) segno.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return as(openIn(t, storeOf(s).dir, o))
	}
	storetest.Test(t, func(t *testing.T) segno.Store { return as(openIn(t, t.TempDir(), o)) }, storetest.Options{
		Full: func(t *testing.T, s segno.Store) func() {
			disk.Full.Store(true)
			limitPages(t, storeOf(s), 1)
			return func() {
				disk.Full.Store(false)
				limitPages(t, storeOf(s), 1<<30)
			}
		},
		Clock: clock, Reopen: reopen, Raw: func(t *testing.T, s segno.Store) []byte { return rawFiles(t, storeOf(s).dir) },
		Another: func(t *testing.T, s segno.Store) segno.Store { return as(openIn(t, storeOf(s).dir, o)) },
		Size: func(t *testing.T, s segno.Store) int64 {
			if _, err := storeOf(s).db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
				t.Fatal(err)
			}
			return sizeOf(t, storeOf(s).dir)
		},
	})
}

// limitPages limits the size of the database to a number of pages, but not below its present size.
func limitPages(t *testing.T, s *Store, pages int) {
	c := <-s.writer
	defer func() { s.writer <- c }()
	if _, err := c.sql.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count=%d", pages)); err != nil {
		t.Fatal(err)
	}
}

// rawFiles returns the bytes of all files below a directory: the database with its log and its free pages,
// and the packs.
func rawFiles(t testing.TB, dir string) (raw []byte) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		raw = append(raw, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func sizeOf(t testing.TB, dir string) (sum int64) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil && filepath.Ext(path) != ".db-shm" {
			sum += fi.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
