package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// fillLocks takes locks with a connection until the server has no more, and then releases some of them.
func fillLocks(t *testing.T, c *pgconn.PgConn, free int) {
	t.Helper()
	const batch = 500
	for from := 0; ; from += batch {
		_, err := (postgresConn{c}).Exec(t.Context(), fmt.Sprintf(`SELECT count(pg_advisory_lock(i)) FROM generate_series(%d, %d) i`, from, from+batch-1))
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), "out of shared memory") {
			t.Fatal(err)
		}
		t.Logf("the server has locks for about %d objects", from)
		if _, err := (postgresConn{c}).Exec(t.Context(), fmt.Sprintf(`SELECT count(pg_advisory_unlock(i)) FROM generate_series(0, %d) i`, free-1)); err != nil {
			t.Fatal(err)
		}
		return
	}
}

// A server has too few locks for a move of many tables. The error names the setting and a value that is enough. Another
// client takes most of the locks, so the test does not need thousands of tables.
func TestMoveOfManyTablesNamesTheSetting(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	const tables = 100
	var b strings.Builder
	for n := range tables {
		fmt.Fprintf(&b, "CREATE TABLE t%d (id serial PRIMARY KEY, name text);", n)
	}
	p := newProject(t, b.String())
	p.turn("begin", func() { p.write("a", "1") })
	p.segno("world", "attach", p.url(p.database))
	p.turn("insert", func() { p.sql(`INSERT INTO t7 (name) VALUES ('x')`) })
	client := p.connect("postgres")
	defer client.Close(t.Context())
	fillLocks(t, client, 10*tables) // enough for a save but not for a move
	p.exits(4, words("undo -y"), "set max_locks_per_transaction, which is 64, to 128, and restart the server")
	p.want("the database", p.sql(`SELECT count(*) FROM t7`), "1")
	if _, err := (postgresConn{client}).Exec(t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
	p.segno("redo", "-y")
	p.exits(0, words("undo -y"), "1 table")
	p.want("the database", p.sql(`SELECT count(*) FROM t7`), "0")
}
