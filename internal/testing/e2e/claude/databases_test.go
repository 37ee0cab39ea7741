package claude_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/serverrig"
)

// asSQL is the variable that makes a process of the test binary execute statements in a SQLite database. Its
// arguments are FILE STATEMENTS.
const asSQL = "SEGNO_TEST_SQL"

func sqlMain() {
	db, err := sql.Open("sqlite", os.Args[1])
	if err == nil {
		_, err = db.Exec(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	db.Close()
	os.Exit(0)
}

// databases are a SQLite database in the project and one in a PostgreSQL server, which the agent's commands change.
type databases struct {
	*e2erig.Stage
	file       string
	url, admin string // of the owner of the database, and of the superuser
}

func newDatabases(s *e2erig.Stage) *databases {
	server, err := serverrig.Postgres(s.Ctx, "", serverrig.PostgresNoSync()...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := server.Stop(); err != nil {
			s.Error(err)
		}
	})
	if err := serverrig.PostgresPrograms(s.Ctx); err != nil {
		s.Fatal(err)
	}
	admin := strings.Replace(server.URL, "/postgres?", "/dev?", 1)
	d := &databases{s, s.Path("dev.db"), strings.Replace(admin, "postgres@", "owner@", 1), admin}
	d.run("psql", "-qX", "-c", "CREATE ROLE owner LOGIN CREATEDB", "-c", "CREATE DATABASE dev OWNER owner", server.URL)
	return d
}

func (d *databases) run(name string, args ...string) string {
	d.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		d.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// change returns a step in which the agent executes statements in both databases.
func (d *databases) change(statements string) map[string]any {
	return e2erig.Bash(fmt.Sprintf(`psql -qX -v ON_ERROR_STOP=1 -c "%[1]s" '%[2]s' && %[3]s=1 '%[4]s' dev.db "%[1]s"`, statements, d.url, asSQL, os.Args[0]))
}

// dump returns the content of both databases.
func (d *databases) dump() string {
	d.Helper()
	lines := slices.DeleteFunc(strings.Split(d.run("pg_dump", "--dbname="+d.admin), "\n"), func(line string) bool {
		return strings.HasPrefix(line, `\restrict`) || strings.HasPrefix(line, `\unrestrict`)
	})
	db, err := sql.Open("sqlite", d.file)
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	for _, query := range []string{"SELECT sql FROM sqlite_schema ORDER BY name", "SELECT id || ' ' || name FROM items ORDER BY id"} {
		rows, err := db.QueryContext(d.Ctx, query)
		if err != nil {
			lines = append(lines, err.Error())
			continue
		}
		for rows.Next() {
			var line sql.NullString
			if err := rows.Scan(&line); err != nil {
				d.Fatal(err)
			}
			lines = append(lines, line.String)
		}
		if err := rows.Err(); err != nil {
			d.Fatal(err)
		}
	}
	return strings.Join(lines, "\n")
}

func (d *databases) wantDump(when, want string) {
	d.Helper()
	g, w := strings.Split(d.dump(), "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			d.Fatalf("%s: line %d of the dump is %q, want %q", when, i+1, g[min(i, len(g)):min(i+2, len(g))], w[min(i, len(w)):min(i+2, len(w))])
		}
	}
}

// TestDatabasesMoveWithTheConversation changes two databases with the agent's commands, and compares dumps after each
// move. Then the PostgreSQL server revokes a right in the middle of a turn. The agent's user and all later commands
// receive an error.
func TestDatabasesMoveWithTheConversation(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		d := newDatabases(s)
		session := s.Say(e2erig.Prompt("create", d.change("CREATE TABLE items (id integer PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'one')"), "done"))
		s.Segno("world", "attach", "dev.db")
		s.Segno("world", "attach", d.url)
		states := []string{d.dump()}
		for i, statements := range []string{"INSERT INTO items VALUES (2, 'two')", "ALTER TABLE items ADD COLUMN price integer; UPDATE items SET name = 'x'", "DROP TABLE items; CREATE TABLE items (id integer PRIMARY KEY, name text)"} {
			s.Say(e2erig.Prompt(fmt.Sprint("change ", i), d.change(statements), e2erig.Bash(fmt.Sprintf("echo %d > a.txt", i+1)), "done"), "--resume", session)
			states = append(states, d.dump())
		}
		for _, move := range []struct {
			args  []string
			state int
		}{
			{[]string{"undo", "-y"}, 2}, {[]string{"undo", "-y"}, 1}, {[]string{"redo", "-y"}, 2}, {[]string{"op", "undo", "-y"}, 1},
			{[]string{"restore", "t4", "-y"}, 3}, {[]string{"undo", "3", "-y"}, 0}, {[]string{"redo", "3", "-y"}, 3},
		} {
			s.Segno(move.args...)
			d.wantDump("segno "+strings.Join(move.args, " "), states[move.state])
			if got, want := s.Read("a.txt"), fmt.Sprintln(move.state); got != want {
				s.Errorf("after segno %v the file is %q, want %q", move.args, got, want)
			}
		}
		fork := s.Path("../fork")
		s.Segno("fork", "t3", "--to", fork)
		d.wantDump("segno fork", states[3])
		there := &databases{s, filepath.Join(fork, "dev.db"), "", strings.Replace(d.admin, "/dev?", "/dev_fork?", 1)}
		there.wantDump("the fork", states[2])

		// Revoke the right to read while the agent works.
		hide := e2erig.Bash("psql -qX -c 'ALTER TABLE items OWNER TO postgres' '" + d.admin + "'")
		s.Say(e2erig.Prompt("hide", hide, e2erig.Bash("echo 9 > a.txt"), "done"), "--resume", s.Head().Session)
		if !s.Head().Partial {
			s.Error("a turn without a database is not partial")
		}
		unread := d.dump()
		for _, x := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"show"}, 0, "not saved: database"}, {[]string{"log"}, 0, "database not saved"}, {[]string{"status"}, 0, "not saved: the role owner may not read the table public.items"},
			{[]string{"save"}, 4, "not saved: database"}, {[]string{"undo", "-y"}, 4, "is not saved and not moved: the role owner may not read"},
		} {
			if out, code := s.Try(x.args...); code != x.code || !strings.Contains(out, x.want) {
				s.Errorf("segno %v: exit code %d, want %d with %q\n%s", x.args, code, x.code, x.want, out)
			}
		}
		d.wantDump("the moves without a right", unread)
		if got := s.Read("a.txt"); got != "3\n" {
			s.Errorf("the file beside it is %q", got)
		}
	})
}
