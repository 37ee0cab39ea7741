package database_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// logFixture is a database of about 20 MB in WAL mode, which a program has open.
func logFixture(t *testing.T) (f *fixture, client func(statements ...string)) {
	f = newFixture(t)
	db := f.open()
	f.exec(db, "PRAGMA journal_mode=wal", "PRAGMA wal_autocheckpoint=0", "PRAGMA synchronous=off", "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)",
		"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 5000) INSERT INTO t SELECT i, randomblob(3900) FROM c",
		"PRAGMA wal_checkpoint(TRUNCATE)", "UPDATE t SET x = randomblob(3900) WHERE id = 1")
	return f, func(statements ...string) {
		t.Helper()
		f.exec(db, statements...)
		if got, want := f.savedPages(f.snapshot(f.attached(true))), f.pages(); string(got) != string(want) {
			t.Error("the saved pages are not those that SQLite reads")
		}
	}
}

// A save reads the new part of the log and the groups of the changed pages.
func TestLogIsReadFromItsLastPlace(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	f, client := logFixture(t)
	client()
	for i, statement := range []string{
		"UPDATE t SET x = randomblob(3900) WHERE id = 1000",
		"UPDATE t SET x = randomblob(3900) WHERE id IN (1000, 4000)",
		"INSERT INTO t SELECT id + 10000, randomblob(3900) FROM t LIMIT 300",
		"BEGIN; DELETE FROM t WHERE id > 10000; COMMIT",
	} {
		w := f.attached(true)
		db := f.open()
		f.exec(db, statement)
		before := bytesRead(t)
		s := f.snapshot(w)
		if n := bytesRead(t) - before; n > 10<<20 {
			t.Errorf("change %d: the save read %d bytes of 20 MB", i, n)
		}
		if string(f.savedPages(s)) != string(f.pages()) {
			t.Errorf("change %d: the saved pages are not those that SQLite reads", i)
		}
		db.Close()
	}
}

// What is not known to be the log of the last save, or contradicts its index, is read as a whole or by SQLite.
func TestOtherLogsAreRead(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	changes := map[string]func(f *fixture, client func(...string)) error{
		"checkpoint": func(_ *fixture, client func(...string)) error { client("PRAGMA wal_checkpoint(PASSIVE)"); return nil },
		"checkpoint and restart": func(_ *fixture, client func(...string)) error {
			client("PRAGMA wal_checkpoint(RESTART)", "UPDATE t SET x = 2 WHERE id = 2")
			return nil
		},
		"truncated log": func(_ *fixture, client func(...string)) error { client("PRAGMA wal_checkpoint(TRUNCATE)"); return nil },
		"vacuum": func(_ *fixture, client func(...string)) error {
			client("DELETE FROM t WHERE id % 2", "VACUUM")
			return nil
		},
		"a frame that no transaction ends": func(f *fixture, client func(...string)) error {
			client("UPDATE t SET x = 3 WHERE id = 3")
			log, err := os.OpenFile(f.file+"-wal", os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer log.Close()
			_, err = log.Write(make([]byte, 4120))
			return err
		},
		"a page changed in the file": func(f *fixture, client func(...string)) error {
			client("PRAGMA wal_checkpoint(PASSIVE)")
			file, err := os.OpenFile(f.file, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = file.WriteAt([]byte("careless"), 3000*4096+2000)
			return err
		},
	}
	for _, name := range soak.Some(t, 2, slices.Sorted(maps.Keys(changes))...) {
		t.Run(name, func(t *testing.T) {
			f, client := logFixture(t)
			client()
			if err := changes[name](f, client); err != nil {
				t.Fatal(err)
			}
			s := f.snapshot(f.attached(true))
			if string(f.savedPages(s)) != string(f.pages()) {
				t.Error("the saved pages are not those that SQLite reads")
			}
			for i := range 3 {
				client(fmt.Sprintf("UPDATE t SET x = %d WHERE id = 5", i))
			}
		})
	}
}
