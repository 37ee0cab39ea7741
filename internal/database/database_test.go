package database_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// The clock of the fixture is an hour ahead, so that files do not count as just changed. The test also resets the
// modification times, so only the content of the database shows a change. In the mode "log" it does not reset them, so
// that a save reads only the new frames of the log.
func TestNoChangeIsMissed(t *testing.T) {
	for _, mode := range []string{"delete", "truncate", "persist", "memory", "off", "wal", "log"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			resets := mode != "log"
			if !resets {
				mode = "wal"
			}
			f := newFixture(t)
			random := rand.New(rand.NewPCG(soak.Seed(t), 0))
			db := f.open()
			f.exec(db, "PRAGMA synchronous=off", "PRAGMA journal_mode="+mode, "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)",
				"INSERT INTO t VALUES (1, zeroblob(9000)), (2, zeroblob(10)), (3, zeroblob(5000))")
			cached, fresh := f.attached(true), f.attached(false)
			for i := range soak.Count(t, 60, 6000) {
				switch n := random.IntN(12); {
				case n < 6: // the size of the files does not change
					f.exec(db, fmt.Sprintf("UPDATE t SET x = randomblob(length(x)) WHERE id = %d", 1+random.IntN(3)))
				case n == 6:
					f.exec(db, fmt.Sprintf("INSERT INTO t(x) VALUES (randomblob(%d))", random.IntN(9000)))
				case n == 7:
					f.exec(db, "DELETE FROM t WHERE id > 3")
				case n == 8:
					f.exec(db, "VACUUM")
				case n == 9:
					f.exec(db, "PRAGMA wal_checkpoint(TRUNCATE)")
				case n == 10:
					if err := db.Close(); err != nil {
						t.Fatal(err)
					}
					db = f.open()
					f.exec(db, "PRAGMA synchronous=off", "PRAGMA journal_mode="+mode)
				}
				for _, suffix := range []string{"", "-wal", "-journal"} {
					if resets {
						_ = os.Chtimes(f.file+suffix, time.Unix(1, 1), time.Unix(1, 1))
					}
				}
				s := f.snapshot(cached)
				if got, want := f.document(s), f.document(f.snapshot(fresh)); got != want {
					t.Fatalf("step %d: a change was missed:\n%s\n%s", i, got, want)
				}
				if !bytes.Equal(f.savedPages(s), f.pages()) {
					t.Fatalf("step %d: the saved pages are not those that SQLite reads", i)
				}
			}
		})
	}
}

func TestASmallChangeCostsItsPages(t *testing.T) {
	f := newFixture(t)
	f.sql("CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)",
		"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 2000) INSERT INTO t SELECT i, randomblob(1000) FROM c")
	w := f.attached(true)
	before := f.snapshot(w)
	f.sql("UPDATE t SET x = randomblob(1000) WHERE id = 1000")
	b := f.objects.Batch()
	after, err := w.Snapshot(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changes, err := w.DiffDatabases(t.Context(), before.World, after.World)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	if n, err := w.DatabasePages(t.Context(), changes[0]); err != nil || n != 1 {
		t.Errorf("the change has %d pages, %v; want 1", n, err)
	}
	var bytes int64
	for _, o := range staged.Objects {
		bytes += o.Size
	}
	if bytes > 4096+256*32+1000 {
		t.Errorf("the change costs %d bytes; want the page, its group, the content and the document", bytes)
	}
}

func TestWriterMeanwhile(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			f := newFixture(t)
			db := f.open()
			f.exec(db, "PRAGMA synchronous=off", "PRAGMA journal_mode="+mode, "PRAGMA busy_timeout=10000",
				"CREATE TABLE t(x)", "CREATE TABLE u(x)", "INSERT INTO t VALUES (0)", "INSERT INTO u VALUES (0)")
			stop, done := make(chan struct{}), make(chan error)
			go func() {
				for i := 1; ; i++ {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					if _, err := db.Exec(fmt.Sprintf("BEGIN; UPDATE t SET x = %d; UPDATE u SET x = %d; COMMIT", i, i)); err != nil {
						done <- err
						return
					}
				}
			}()
			w := f.attached(true)
			var saves []*segno.Snapshot
			for range 8 {
				saves = append(saves, f.snapshot(w))
			}
			close(stop)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, s := range saves { // each is the state after a transaction
				if why := f.move(w, f.snapshot(w), s); why != "" {
					t.Fatal(why)
				}
				if got := f.value("SELECT ((SELECT x FROM t) - (SELECT x FROM u)) || ' ' || (SELECT * FROM pragma_integrity_check)"); got != "0 ok" {
					t.Errorf("the saved state is %s", got)
				}
				if now := f.snapshot(w); !now.Equals(s) {
					t.Errorf("after the move the state is\n%s\nwant\n%s", f.document(now), f.document(s))
				}
			}
		})
	}
}

// States with tables, indexes and free pages of different sizes, in both directions.
func TestMovesAreExact(t *testing.T) {
	f := newFixture(t)
	w := f.attached(true)
	states := []*segno.Snapshot{f.snapshot(w)} // the database does not exist
	step := func(statements ...string) {
		f.sql(statements...)
		states = append(states, f.snapshot(w))
	}
	if err := os.WriteFile(f.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	states = append(states, f.snapshot(w)) // an empty file
	step("CREATE TABLE t(x)", "INSERT INTO t VALUES (1)")
	step("CREATE TABLE u(y UNIQUE)", "INSERT INTO u VALUES (randomblob(50000)), (zeroblob(70000))")
	step("PRAGMA journal_mode=wal", "DELETE FROM u", "INSERT INTO t SELECT randomblob(3000) FROM pragma_function_list")
	step("DROP TABLE t", "VACUUM")
	step("PRAGMA journal_mode=delete", "CREATE VIEW v AS SELECT * FROM u")
	step("PRAGMA page_size=8192", "VACUUM")
	random := rand.New(rand.NewPCG(soak.Seed(t), 0))
	for range soak.Count(t, 40, 4000) {
		to := states[random.IntN(len(states))]
		if why := f.move(w, f.snapshot(w), to); why != "" {
			t.Fatal(why)
		}
		if now := f.snapshot(w); !now.Equals(to) {
			t.Fatalf("after the move the state is\n%s\nwant\n%s", f.document(now), f.document(to))
		}
		if to != states[0] && to != states[1] {
			if got := f.value("PRAGMA integrity_check"); got != "ok" {
				t.Fatal(got)
			}
		}
	}
}

// A client that stays connected sees the restored rows, although it read the old content before.
func TestConnectedClientSeesTheMove(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			f := newFixture(t)
			client := f.open()
			f.exec(client, "PRAGMA journal_mode="+mode, "CREATE TABLE t(x)", "INSERT INTO t VALUES (1)")
			w := f.attached(true)
			one := f.snapshot(w)
			f.exec(client, "UPDATE t SET x = 2")
			two := f.snapshot(w)
			for _, x := range []struct {
				from, to *segno.Snapshot
				want     int
			}{{two, one, 1}, {one, two, 2}, {two, one, 1}} {
				if why := f.move(w, x.from, x.to); why != "" {
					t.Fatal(why)
				}
				var got int
				if err := client.QueryRow("SELECT x FROM t").Scan(&got); err != nil || got != x.want {
					t.Errorf("the client sees %d, %v; want %d", got, err, x.want)
				}
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	f := newFixture(t)
	f.sql("CREATE TABLE t(x)", "INSERT INTO t VALUES (1)")
	w := f.attached(true)
	one := f.snapshot(w)
	f.sql("UPDATE t SET x = 2")
	two := f.snapshot(w)
	f.sql("UPDATE t SET x = 3")
	if why := f.move(w, two, one); !strings.Contains(why, "changed meanwhile") {
		t.Errorf("a database that changed since the plan was overwritten: %q", why)
	}
	three := f.snapshot(w)
	client := f.open()
	f.exec(client, "BEGIN IMMEDIATE", "UPDATE t SET x = 4")
	if why := f.move(w, three, one); !strings.Contains(why, "locked") {
		t.Errorf("a database with an open transaction was overwritten: %q", why)
	}
	f.exec(client, "ROLLBACK")
	if got := f.value("SELECT x FROM t"); got != "3" {
		t.Errorf("x is %s", got)
	}
	if why := f.move(w, three, one); why != "" || f.value("SELECT x FROM t") != "1" {
		t.Errorf("the move failed: %q", why)
	}
}

func TestNothingIsLeftBeside(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		f := newFixture(t)
		f.sql("PRAGMA journal_mode="+mode, "CREATE TABLE t(x)")
		f.snapshot(f.attached(true))
		if got := f.names(); got != "dev.db" {
			t.Errorf("%s: a snapshot left %s", mode, got)
		}
	}
}

// segno neither reads nor writes a file with which an agent may replace a database.
func TestHostileFiles(t *testing.T) {
	other := newFixture(t)
	other.sql("CREATE TABLE secret(x)", "INSERT INTO secret VALUES (1)")
	for what, make := range map[string]func(f *fixture) error{
		"a symlink":   func(f *fixture) error { return os.Symlink(other.file, f.file) },
		"a directory": func(f *fixture) error { return os.Mkdir(f.file, 0o700) },
		"text":        func(f *fixture) error { return os.WriteFile(f.file, []byte(strings.Repeat("text ", 1000)), 0o600) },
		"damage":      func(f *fixture) error { return os.WriteFile(f.file, []byte("SQLite format 3\x00\xff\xff\xff"), 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.sql("CREATE TABLE t(x)")
			w := f.attached(true)
			good := f.snapshot(w)
			if err := os.Remove(f.file); err != nil {
				t.Fatal(err)
			}
			if err := make(f); err != nil {
				t.Fatal(err)
			}
			bad := f.snapshot(w)
			if doc := f.document(bad); !strings.Contains(doc, `"unread":`) {
				t.Errorf("the document is %s", doc)
			}
			changes, err := w.DiffDatabases(t.Context(), bad.World, good.World)
			if err != nil || len(changes) != 1 || changes[0].From.Type != segno.EntityProtected {
				t.Fatal(changes, err)
			}
			changes[0].From = segno.Entity{}
			if conflicts, err := w.Apply(t.Context(), changes, segno.Hash{}); err == nil && len(conflicts) == 0 {
				t.Error("it was overwritten")
			}
			if got := other.value("SELECT x FROM secret"); got != "1" {
				t.Errorf("the other database has %s", got)
			}
		})
	}
}
