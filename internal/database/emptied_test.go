package database_test

import (
	"os"
	"testing"
)

// killedProgram makes a database with a log that a killed program left: all rows are in the log alone.
func (f *fixture) killedProgram() {
	f.Helper()
	db := f.open()
	f.exec(db, "PRAGMA journal_mode=wal", "CREATE TABLE t(x)", "INSERT INTO t VALUES (1), (2)")
	left := map[string][]byte{}
	for _, name := range []string{f.file, f.file + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		left[name] = data
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	for name, data := range left {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			f.Fatal(err)
		}
	}
}

// TestAnEmptyDatabaseStaysEmpty moves a database with a log back to the empty file that was there before, and forth.
func TestAnEmptyDatabaseStaysEmpty(t *testing.T) {
	f := newFixture(t)
	if err := os.WriteFile(f.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := f.attached(true)
	empty := f.snapshot(w)
	f.killedProgram()
	full := f.snapshot(w)
	if why := f.move(w, full, empty); why != "" {
		t.Fatal(why)
	}
	if data, err := os.ReadFile(f.file); err != nil || len(data) > 0 || f.names() != "dev.db" {
		t.Fatalf("the database has %d bytes, and the directory %s: %v", len(data), f.names(), err)
	}
	if why := f.move(w, empty, full); why != "" {
		t.Fatal(why)
	}
	if got := f.value("SELECT count(*) FROM t"); got != "2" {
		t.Errorf("the table has %s rows", got)
	}
}

// TestAnEmptiedDatabaseWithAReader moves a database back to an empty file while a program reads it. The rows that it still reads are in the
// log, which cannot be emptied, so the move changes nothing.
func TestAnEmptiedDatabaseWithAReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := os.WriteFile(f.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := f.attached(true)
	empty := f.snapshot(w)
	reader, writer := f.open(), f.open()
	f.exec(writer, "PRAGMA journal_mode=wal", "CREATE TABLE t(x)", "INSERT INTO t VALUES (1)")
	f.exec(reader, "BEGIN", "SELECT count(*) FROM t")
	f.exec(writer, "INSERT INTO t VALUES (2)")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	full := f.snapshot(w)
	if why := f.move(w, full, empty); why != "another program has the database locked" {
		t.Errorf("the move was not refused: %q", why)
	}
	f.exec(reader, "COMMIT")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if got := f.value("SELECT count(*) FROM t"); got != "2" {
		t.Errorf("the table has %s rows", got)
	}
}
