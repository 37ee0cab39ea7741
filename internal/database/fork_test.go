package database_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/vfs"
)

// forkedTree is an [emptyTree] that can be forked.
type forkedTree struct{ emptyTree }

func (w *forkedTree) Fork(_ context.Context, _ segno.Snapshot, dir string) (segno.ForkReport, error) {
	return segno.ForkReport{Root: dir}, os.Mkdir(dir, 0o700)
}

// TestForkOfDatabasesWithOneName forks a workspace with two databases outside of it. Their files have the same name, in two
// directories. Each has a separate copy.
func TestForkOfDatabasesWithOneName(t *testing.T) {
	f := newFixture(t)
	var all []database.Attachment
	for _, name := range []string{"one", "two"} {
		f.file = filepath.Join(f.dir, name, "dev.db")
		if err := os.Mkdir(filepath.Dir(f.file), 0o700); err != nil {
			t.Fatal(err)
		}
		f.sql("CREATE TABLE t AS SELECT '" + name + "' x")
		all = append(all, database.Attachment{Name: f.file, Kind: database.KindSQLite, Path: f.file})
	}
	w := database.Attach(&forkedTree{emptyTree{root: filepath.Join(f.dir, "work")}}, database.Options{Objects: f.objects, FS: vfs.OS, Now: func() time.Time { return f.now }, Lock: noLock,
		List:  func() ([]database.Attachment, error) { return all, nil },
		Cache: database.Cache{FS: vfs.OS, Sealer: plainSealer{}, File: filepath.Join(f.dir, "cache")}})
	report, err := w.Fork(t.Context(), *f.snapshot(w), filepath.Join(f.dir, "fork"))
	if err != nil || len(report.Unsaved) > 0 {
		t.Fatal(report.Unsaved, err)
	}
	copies := w.Copies()
	if len(copies) != 2 {
		t.Fatalf("the copies are %+v", copies)
	}
	for i, want := range []string{"one", "two"} {
		if copies[i].Name != all[i].Name {
			t.Errorf("copy %d is %+v", i, copies[i])
		}
		f.file = copies[i].File(report.Root)
		if got := f.value("SELECT x FROM t"); got != want {
			t.Errorf("%s has %q, want %q", f.file, got, want)
		}
	}
}
