package database_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// whileWriting is a file system on which another program works while segno writes the copy of a database.
type whileWriting struct {
	vfs.FS
	once *sync.Once
	do   func()
}

func (w whileWriting) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if filepath.Base(name) == "dev.db.segno-new" {
		w.once.Do(w.do)
	}
	return w.FS.OpenFile(name, flag, perm)
}

// TestARestoredDatabaseHasItsMode deletes a database. A move that makes it again gives it the permissions that it had, and so does
// a fork.
func TestARestoredDatabaseHasItsMode(t *testing.T) {
	f := newFixture(t)
	f.sql("CREATE TABLE t(x)")
	if err := os.Chmod(f.file, 0o664); err != nil {
		t.Fatal(err)
	}
	w := f.attached(true)
	there := f.snapshot(w)
	if err := os.Remove(f.file); err != nil {
		t.Fatal(err)
	}
	if why := f.move(w, f.snapshot(w), there); why != "" {
		t.Fatal(why)
	}
	if fi, err := os.Stat(f.file); err != nil || fi.Mode() != 0o664 {
		t.Errorf("the database has %v, %v", fi.Mode(), err)
	}
}

// TestADatabaseThatWasMadeMeanwhileStays lets another program make the database, or write to it, while segno writes the copy that
// would replace it.
func TestADatabaseThatWasMadeMeanwhileStays(t *testing.T) {
	for what, x := range map[string]struct {
		before []string // the state to which the move leads
		after  func(f *fixture) error
		meanwhile,
		query, want string
	}{
		"it did not exist": {[]string{"CREATE TABLE t(x)"}, func(f *fixture) error { return os.Remove(f.file) },
			"CREATE TABLE made(y); INSERT INTO made VALUES (7)", "SELECT y FROM made", "7"},
		"it was empty": {[]string{"CREATE TABLE t(x)"}, func(f *fixture) error { return os.Truncate(f.file, 0) },
			"CREATE TABLE made(y); INSERT INTO made VALUES (7)", "SELECT y FROM made", "7"},
		"its pages have another size": {[]string{"CREATE TABLE t(x)", "INSERT INTO t VALUES (1)"}, func(f *fixture) error {
			f.sql("PRAGMA page_size=8192", "VACUUM")
			return nil
		}, "INSERT INTO t VALUES (7)", "SELECT max(x) FROM t", "7"},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.sql(x.before...)
			to := f.snapshot(f.attached(true))
			if err := x.after(f); err != nil {
				t.Fatal(err)
			}
			from := f.snapshot(f.attached(true))
			f.fs = whileWriting{vfs.OS, new(sync.Once), func() { f.sql(x.meanwhile) }}
			if why := f.move(f.attached(true), from, to); !strings.Contains(why, "changed meanwhile") {
				t.Errorf("the reason is %q", why)
			}
			if got := f.value(x.query); got != x.want {
				t.Errorf("the database has %s", got)
			}
			if got := f.names(); got != "dev.db" {
				t.Errorf("the move left %s", got)
			}
			f.fs = vfs.OS
			w := f.attached(true)
			if why := f.move(w, f.snapshot(w), to); why != "" {
				t.Errorf("the next move: %s", why)
			}
		})
	}
}

// TestADatabaseThatCannotBeWrittenIsAConflict moves databases that this user can read and not write. An error would end the whole
// move, and each later move that completes it.
func TestADatabaseThatCannotBeWrittenIsAConflict(t *testing.T) {
	for what, protect := range map[string]func(f *fixture) error{
		"the file":      func(f *fixture) error { return os.Chmod(f.file, 0o444) },
		"the directory": func(f *fixture) error { return os.Remove(f.file) },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.sql("CREATE TABLE t(x)")
			one := f.snapshot(f.attached(true))
			f.sql("INSERT INTO t VALUES (1)")
			if err := protect(f); err != nil {
				t.Fatal(err)
			}
			w := f.attached(true)
			two := f.snapshot(w)
			if err := errors.Join(os.Chmod(f.dir, 0o555), os.Chmod(filepath.Dir(f.dir), 0o755)); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(f.dir, 0o755)
			changes, err := w.DiffDatabases(t.Context(), two.World, one.World)
			if err != nil {
				t.Fatal(err)
			}
			var conflicts []segno.Conflict
			asOtherUser(t, func() { conflicts, err = w.Apply(t.Context(), changes, segno.Hash{}) })
			if err != nil || len(conflicts) != 1 || !strings.HasPrefix(conflicts[0].Why, "it cannot be written: ") {
				t.Errorf("conflicts %q, %v", conflicts, err)
			}
		})
	}
}
