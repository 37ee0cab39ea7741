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
		p.Fatalf("%v: %.200s", err, statements)
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
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			p.Fatalf("%s: line %d: %q, want %q", what, i+1, g[min(i, len(g)):min(i+3, len(g))], w[min(i, len(w)):min(i+3, len(w))])
		}
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

// manyObjects has objects of most kinds.
const manyObjects = `
	CREATE EXTENSION IF NOT EXISTS pgcrypto;
	CREATE SCHEMA shop; COMMENT ON SCHEMA shop IS 'it''s a shop';
	CREATE TYPE mood AS ENUM ('sad', 'ok'); ALTER TYPE mood ADD VALUE 'happy' AFTER 'ok';
	CREATE DOMAIN shop.price AS numeric(10,2) CHECK (VALUE >= 0);
	CREATE TYPE pair AS (a int, b text);
	CREATE SEQUENCE shop.numbers START 7 INCREMENT 3; SELECT nextval('shop.numbers');
	CREATE SEQUENCE never; CREATE SEQUENCE reset; SELECT setval('reset', 5, false);
	CREATE FUNCTION twice(x int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT x * 2 $$;
	CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN NEW.doubled := twice(NEW.amount); /*
\restrict not a command
*/	RETURN NEW; END $f$;
	CREATE PROCEDURE nothing() LANGUAGE plpgsql AS 'BEGIN END';
	CREATE AGGREGATE total(int) (sfunc = int4pl, stype = int, initcond = '0');
	CREATE OPERATOR === (leftarg = int, rightarg = int, function = int4eq);
	CREATE TABLE shop."Order Lines" (id int PRIMARY KEY DEFAULT nextval('shop.numbers'), amount int NOT NULL, doubled int, m mood DEFAULT 'ok', p shop.price,
		made timestamptz DEFAULT now(), data bytea, doc jsonb, parts int[], pr pair, tripled int GENERATED ALWAYS AS (amount * 3) STORED, gone int);
	ALTER TABLE shop."Order Lines" DROP COLUMN gone;
	CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON shop."Order Lines" FOR EACH ROW EXECUTE FUNCTION touched();
	INSERT INTO shop."Order Lines" (amount, p, data, doc, parts, pr) SELECT i, i / 7.0, decode(md5(i::text), 'hex'), jsonb_build_object('n', i), ARRAY[i, NULL], ROW(i, E'tab\t new\nline \\N')::pair
		FROM generate_series(1, 30) i;
	CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree DEFERRABLE INITIALLY DEFERRED, line int REFERENCES shop."Order Lines" ON DELETE CASCADE);
	INSERT INTO tree VALUES (1, 2, 10), (2, 1, NULL); SET CONSTRAINTS ALL IMMEDIATE;
	CREATE TABLE nokey (t text); INSERT INTO nokey VALUES ('b'), ('a'), (NULL), ('');
	CREATE TABLE nothing_in_it (); INSERT INTO nothing_in_it DEFAULT VALUES;
	CREATE TABLE parts (d date, n int, PRIMARY KEY (d, n)) PARTITION BY RANGE (d);
	CREATE TABLE parts_old PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
	CREATE TABLE parts_rest PARTITION OF parts DEFAULT;
	INSERT INTO parts VALUES ('2020-05-05', 1), ('2022-05-05', 2);
	CREATE TABLE mother (x int); CREATE TABLE child (y int) INHERITS (mother); INSERT INTO mother VALUES (1); INSERT INTO child VALUES (2, 3);
	CREATE UNLOGGED TABLE quick (x int UNIQUE NULLS NOT DISTINCT); INSERT INTO quick VALUES (NULL);
	CREATE INDEX part_of ON shop."Order Lines" (twice(amount)) WHERE amount > 3;
	CREATE VIEW seen AS SELECT o.id, t.parent FROM shop."Order Lines" o LEFT JOIN tree t ON t.line = o.id;
	CREATE MATERIALIZED VIEW kept AS SELECT count(*) n FROM shop."Order Lines"; CREATE UNIQUE INDEX ON kept (n);
	CREATE RULE none AS ON DELETE TO nokey DO INSTEAD NOTHING;
	ALTER TABLE tree ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON tree USING (id > 0);
	CREATE STATISTICS st ON d, n FROM parts;
	CREATE PUBLICATION pub FOR TABLE tree;
	CREATE FOREIGN DATA WRAPPER fdw; CREATE SERVER far FOREIGN DATA WRAPPER fdw; CREATE FOREIGN TABLE away (x int) SERVER far;
	CREATE FUNCTION ev() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; CREATE EVENT TRIGGER evt ON ddl_command_end EXECUTE FUNCTION ev();
	CREATE CAST (pair AS text) WITH INOUT;
	CREATE COLLATION german (provider = libc, locale = 'C');
	CREATE TEXT SEARCH CONFIGURATION conf (COPY = simple);
	SELECT lo_from_bytea(4711, '\x00ff10');
	GRANT SELECT ON tree TO PUBLIC; COMMENT ON TABLE tree IS 'a tree';`

// A database with objects of all kinds goes away, returns exactly, and is unchanged after it.
func TestPostgresMovesAreExact(t *testing.T) {
	p := newProject(t, manyObjects)
	p.segno("save")
	p.segno("world", "attach", p.url(p.database))
	before := p.dump()
	p.turn("drop all", func() {
		p.sql(`DROP EVENT TRIGGER evt; DROP SCHEMA shop CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP PUBLICATION pub; DROP FOREIGN DATA WRAPPER fdw CASCADE;
			SELECT lo_unlink(4711); CREATE TABLE other (x int); CREATE SCHEMA more; CREATE VIEW more.v AS SELECT * FROM other; CREATE TYPE mood AS ENUM ('bad');
			CREATE FUNCTION f(x mood) RETURNS mood LANGUAGE sql AS 'SELECT x'; SELECT lo_from_bytea(4712, 'x')`)
	})
	after := p.dump()
	p.segno("undo", "-y")
	p.want("the database", p.dump(), before)
	if out := p.segno("status"); strings.Contains(out, "changed since then") {
		t.Error(out)
	}
	p.segno("redo", "-y")
	p.want("the database after redo", p.dump(), after)
	p.segno("op", "undo", "-y")
	p.want("the database after op undo", p.dump(), before)
	p.want("a sequence", p.sql(`SELECT nextval('reset'), nextval('never'), nextval('shop.numbers')`), "5 1 100")
	p.want("large object", p.sql(`SELECT lo_get(4711)`), `\x00ff10`)
}

// dump returns what pg_dump writes, without the lines that differ each time.
func (p *project) dump() string {
	p.Helper()
	out, err := exec.Command("pg_dump", "--dbname="+p.url(p.database)).CombinedOutput()
	if err != nil {
		p.Fatalf("pg_dump: %v\n%s", err, out)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\restrict`) && !strings.HasPrefix(line, `\unrestrict`) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
