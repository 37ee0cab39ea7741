package checksumvfs_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/store/sqlite/internal/checksumvfs"
	_ "modernc.org/sqlite"
)

// TestTheLogOfALargeTransaction makes a transaction that is larger than SQLite's cache, so SQLite writes frames to the log
// before the commit, reads them, changes them and writes their headers again. After the commit, another connection must
// read the result, and so must a program that finds the files as a kill at that moment leaves them. The other connection then commits
// frames of its own, which follow those of a commit and overwrite those of a rollback.
func TestTheLogOfALargeTransaction(t *testing.T) {
	if err := checksumvfs.Register(); err != nil {
		t.Fatal(err)
	}
	for _, settings := range []string{"_synchronous=FULL", "_synchronous=NORMAL", "_synchronous=FULL&psow=0", "_synchronous=NORMAL&psow=0"} {
		t.Run(settings, func(t *testing.T) {
			dir := t.TempDir()
			db := open(t, dir, settings)
			exec := func(statements ...string) {
				t.Helper()
				for _, s := range statements {
					if _, err := db.ExecContext(t.Context(), s); err != nil {
						t.Fatal(s, err)
					}
				}
			}
			const insert = `INSERT INTO t WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 400) SELECT n, 0, hex(zeroblob(150)) FROM i`
			exec("PRAGMA journal_mode=WAL", "PRAGMA cache_size=10", "PRAGMA wal_autocheckpoint=0",
				"CREATE TABLE t (n INTEGER PRIMARY KEY, v INTEGER, text TEXT)", "CREATE INDEX t_v ON t (v, n)", "CREATE TABLE u (text TEXT)")
			other := open(t, dir, settings)
			for round, end := range []string{"COMMIT", "ROLLBACK", "COMMIT"} {
				before := result(t, other)
				exec("BEGIN IMMEDIATE", "DELETE FROM t", insert, "UPDATE t SET v = v + n", "SAVEPOINT half", "UPDATE t SET v = 7, text = ''",
					"ROLLBACK TO half", "UPDATE t SET v = v * 2 WHERE n % 3 = 0", "UPDATE t SET v = v + 1")
				if got := result(t, other); got != before {
					t.Errorf("before the end of transaction %d: %v, want %v", round, got, before)
				}
				exec(end)
				want := values{400, 400*401/2 + 2*(3*133*134/2) - 3*133*134/2 + 400}
				killed := t.TempDir()
				for _, name := range []string{"db", "db-wal"} {
					data, err := os.ReadFile(filepath.Join(dir, name))
					if err == nil {
						err = os.WriteFile(filepath.Join(killed, name), data, 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				for where, db := range map[string]*sql.DB{"this connection": db, "another": other, "after a kill": open(t, killed, settings)} {
					if got := result(t, db); got != want {
						t.Errorf("after transaction %d, %s: %v, want %v", round, where, got, want)
					}
				}
				if _, err := other.ExecContext(t.Context(), "INSERT INTO u VALUES (hex(zeroblob(3000)))"); err != nil {
					t.Fatal(err)
				}
				var written int
				if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM u").Scan(&written); err != nil || written != round+1 || result(t, db) != want {
					t.Errorf("after the other connection wrote %d rows, there are %d: %v", round+1, written, err)
				}
			}
		})
	}
}

func open(t *testing.T, dir, settings string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?vfs="+checksumvfs.Name+"&"+settings)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

type values struct{ rows, sum int }

// result reads the table, and checks all pages and the index.
func result(t *testing.T, db *sql.DB) (v values) {
	t.Helper()
	var check string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Fatal(check, err)
	}
	if err := db.QueryRowContext(t.Context(), "SELECT count(*), coalesce(sum(v), 0) FROM t NOT INDEXED").Scan(&v.rows, &v.sum); err != nil {
		t.Fatal(err)
	}
	return v
}
