package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dalsegno/segno"
)

// project is a directory with an agent that works in it and on a database.
type project struct {
	testing.TB
	dir, home string
	database  string
	env       []string
	session   string
	parent    string // of the next record of the session
}

// newProject returns a project with a new database, which it attaches.
func newProject(t testing.TB, statements string) *project {
	base := t.TempDir()
	p := &project{TB: t, dir: filepath.Join(base, "project"), home: filepath.Join(base, "home"), session: segno.NewID()}
	for _, dir := range []string{p.dir, filepath.Join(p.home, ".claude", "projects")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.database = "dev_" + strings.ReplaceAll(segno.NewID(), "-", "")[:12]
	p.env = append(os.Environ(), asCommand+"=1", "HOME="+p.home, "XDG_DATA_HOME="+filepath.Join(p.home, "data"), "CLAUDE_CONFIG_DIR="+filepath.Join(p.home, ".claude"))
	p.admin("CREATE DATABASE " + p.database)
	t.Cleanup(func() { p.admin("DROP DATABASE IF EXISTS " + p.database + " WITH (FORCE)") })
	p.sql(statements)
	p.write("a", "0")
	return p
}

func (p *project) url(database string) string {
	return strings.Replace(server.URL, "/postgres?", "/"+database+"?", 1)
}

func (p *project) connect(database string) *pgconn.PgConn {
	p.Helper()
	c, err := pgconn.Connect(context.Background(), p.url(database))
	if err != nil {
		p.Fatal(err)
	}
	return c
}

func (p *project) admin(statements string) string { return p.on("postgres", statements) }

// sql executes statements in the database, and returns the rows of the last one.
func (p *project) sql(statements string) string { return p.on(p.database, statements) }

func (p *project) on(database, statements string) string {
	p.Helper()
	c := p.connect(database)
	defer c.Close(context.Background())
	rows, err := postgresConn{c}.Exec(context.Background(), statements)
	if err != nil {
		p.Fatalf("%s: %v", statements, err)
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = strings.Join(r, " ")
	}
	return strings.Join(lines, "\n")
}

func (p *project) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *project) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// try runs segno and returns its output and its exit code.
func (p *project) try(args ...string) (string, int) {
	p.Helper()
	cmd := p.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// segno runs a command that must succeed.
func (p *project) segno(args ...string) string {
	p.Helper()
	out, code := p.try(args...)
	if code != 0 {
		p.Fatalf("segno %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// turn makes a turn of the agent, in which act runs.
func (p *project) turn(prompt string, act func()) {
	p.Helper()
	file := filepath.Join(p.home, ".claude", "projects", "-project", p.session+".jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		p.Fatal(err)
	}
	id := segno.NewID()
	event := func(name string) {
		data, err := json.Marshal(map[string]any{"hook_event_name": name, "session_id": p.session, "transcript_path": file, "cwd": p.dir,
			"prompt_id": id, "prompt": prompt, "permission_mode": "default"})
		if err != nil {
			p.Fatal(err)
		}
		cmd := p.command("hook", "claude")
		cmd.Stdin = strings.NewReader(string(data))
		if out, err := cmd.CombinedOutput(); err != nil {
			p.Fatalf("hook %s: %v\n%s", name, err, out)
		}
	}
	record := func(kind, text string) {
		uuid := segno.NewID()
		line := map[string]any{"type": kind, "uuid": uuid, "sessionId": p.session, "cwd": p.dir, "timestamp": "2026-01-01T00:00:00.000Z",
			"message": map[string]any{"role": kind, "content": text}}
		if kind == "user" {
			line["promptId"] = id
		}
		line["parentUuid"] = nil
		if p.parent != "" {
			line["parentUuid"] = p.parent
		}
		p.parent = uuid
		data, err := json.Marshal(line)
		if err != nil {
			p.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s\n", data)
		}
		if err != nil {
			p.Fatal(err)
		}
		f.Close()
	}
	event("UserPromptSubmit")
	record("user", prompt)
	act()
	record("assistant", "done")
	event("Stop")
}

func (p *project) want(what, got, want string) {
	p.Helper()
	if got != want {
		p.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func TestPostgresMovesWithFiles(t *testing.T) {
	p := newProject(t, `CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
		INSERT INTO items (name) SELECT 'item ' || i FROM generate_series(1, 100) i`)
	count := `SELECT count(*), max(id) FROM items`
	p.turn("begin", func() { p.write("a", "1") })
	out := p.segno("world", "attach", p.url(p.database))
	if !strings.Contains(out, "attached postgres://") {
		t.Error(out)
	}
	p.turn("insert", func() { p.write("a", "2"); p.sql(`INSERT INTO items (name) VALUES ('new')`) })
	p.turn("table", func() { p.sql(`CREATE TABLE orders (item bigint REFERENCES items); INSERT INTO orders VALUES (101)`) })
	p.turn("delete", func() { p.sql(`DROP TABLE orders; DELETE FROM items WHERE id > 50`) })
	if out := p.segno("status"); !strings.Contains(out, "nothing since") {
		t.Error(out)
	}
	if out := p.segno("undo", "-y"); !strings.Contains(out, p.database+": 2 tables") {
		t.Error(out)
	}
	p.want("after one undo", p.sql(count+" ; SELECT * FROM orders"), "101")
	if out := p.segno("status"); !strings.Contains(out, "nothing since") {
		t.Error(out)
	}
	p.segno("undo", "-y")
	p.want("after two", p.sql(count), "101 101")
	p.segno("undo", "-y")
	p.want("after three", p.sql(count), "100 100")
	p.want("the sequence after three", p.sql(`SELECT nextval('items_id_seq')`), "101")
	t.Log(p.segno("status"), p.segno("log"))
}
