package main

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/executable"
	_ "modernc.org/sqlite"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// become makes segno run as another user, to whom the project then belongs. That user cannot enter the directories of
// the test binary.
func (p *project) become(uid int) {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		p.Fatal(err)
	}
	p.self = filepath.Join(filepath.Dir(p.dir), "segno")
	if err := executable.Write(p.self, data); err != nil {
		p.Fatal(err)
	}
	p.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	p.own(filepath.Dir(p.dir))
}

// own gives all files below a directory to the user of segno.
func (p *project) own(dir string) {
	p.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && p.user != nil {
			err = os.Lchown(path, int(p.user.Uid), int(p.user.Gid))
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
}

// Databases of both kinds move as root and as another user, in two modes of SQLite, of which a run tries one of the four. The dumps
// after each move equal those after the turns.
func TestDatabasesMoveForEachUser(t *testing.T) {
	users := []int{os.Getuid()}
	const nobody = 65534
	if users[0] == 0 {
		users = append(users, nobody)
	}
	type kind struct {
		user int
		mode string
	}
	var kinds []kind
	for _, user := range users {
		kinds = append(kinds, kind{user, "wal"}, kind{user, "persist"})
	}
	for _, k := range soak.Some(t, 1, kinds...) {
		t.Run(fmt.Sprintf("%s/%d", k.mode, k.user), func(t *testing.T) {
			t.Parallel()
			base, err := os.MkdirTemp("", "segno-users") // other users cannot enter the directory of the test
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(base) })
			if err := os.Chmod(base, 0o755); err != nil {
				t.Fatal(err)
			}
			p := newProjectIn(t, base, `CREATE TABLE t (x int PRIMARY KEY); INSERT INTO t VALUES (0)`)
			p.sqlite("PRAGMA journal_mode="+k.mode, "CREATE TABLE t(x INTEGER PRIMARY KEY, y)", "INSERT INTO t VALUES (0, zeroblob(20000))")
			if k.user != os.Getuid() {
				p.become(k.user)
			}
			p.turn("begin", func() { p.write("a", "0"); p.own(p.dir) })
			p.segno("world", "attach", "dev.db")
			p.segno("world", "attach", p.url(p.database))
			states := []string{p.dumps()}
			for i := 1; i <= 2; i++ {
				p.turn(fmt.Sprint("change ", i), func() {
					p.write("a", fmt.Sprint(i))
					p.sql(fmt.Sprintf(`INSERT INTO t VALUES (%d); CREATE TABLE u%[1]d (y text)`, i))
					p.sqlite(fmt.Sprintf("INSERT INTO t VALUES (%d, randomblob(5000))", i), fmt.Sprintf("CREATE TABLE u%d(y)", i))
					p.own(p.dir)
				})
				states = append(states, p.dumps())
			}
			for _, move := range []struct {
				args  string
				state int
			}{{"undo 2 -y", 0}, {"redo -y", 1}, {"op undo -y", 0}, {"restore t3 -y", 2}} {
				p.segno(words(move.args)...)
				p.want("after segno "+move.args, p.dumps(), states[move.state])
			}
		})
	}
}

// sqlite executes statements in the SQLite database of the project, with a connection that it closes.
func (p *project) sqlite(statements ...string) {
	p.Helper()
	db, err := sql.Open("sqlite", filepath.Join(p.dir, "dev.db"))
	if err != nil {
		p.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			p.Fatalf("%s: %v", s, err)
		}
	}
}

// dumps returns the content of both databases.
func (p *project) dumps() string {
	p.Helper()
	lines := []string{p.dump()}
	db, err := sql.Open("sqlite", filepath.Join(p.dir, "dev.db")+"?mode=ro")
	if err != nil {
		p.Fatal(err)
	}
	defer db.Close()
	for _, query := range []string{"SELECT sql FROM sqlite_schema ORDER BY name", "SELECT x || ' ' || hex(y) FROM t ORDER BY x", "PRAGMA integrity_check"} {
		rows, err := db.Query(query)
		if err != nil {
			p.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				p.Fatal(err)
			}
			lines = append(lines, line)
		}
		if err := rows.Err(); err != nil {
			p.Fatal(err)
		}
	}
	return strings.Join(lines, "\n")
}
