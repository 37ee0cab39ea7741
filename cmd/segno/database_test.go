package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// project is a directory with an agent that works in it and on a database.
type project struct {
	testing.TB
	dir, home string
	database  string
	env       []string
	session   string
	parent    string // of the next record of the session
	// segno runs as this user, from the file self; nil is the user of the test.
	user *syscall.Credential
	self string
}

// newProject returns a project with a new database.
func newProject(t testing.TB, statements string) *project {
	return newProjectIn(t, t.TempDir(), statements)
}

func newProjectIn(t testing.TB, base, statements string) *project {
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
	self := p.self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			p.Fatal(err)
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	if p.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	}
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

// turn makes a turn of the agent, which calls act, and returns what its hooks show to the user.
func (p *project) turn(prompt string, act func()) (shown string) {
	p.Helper()
	file := filepath.Join(p.home, ".claude", "projects", "-project", p.session+".jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		p.Fatal(err)
	}
	id := segno.NewID()
	event := func(name string) {
		data, err := json.Marshal(map[string]any{"hook_event_name": name, "session_id": p.session, "transcript_path": file, "cwd": p.dir,
			"prompt_id": id, "prompt": prompt, "permission_mode": "default",
			"tool_name": "Bash", "tool_use_id": "toolu_" + id, "tool_input": map[string]string{"command": "make"}})
		if err != nil {
			p.Fatal(err)
		}
		cmd := p.command("hook", "claude")
		cmd.Stdin = strings.NewReader(string(data))
		out, err := cmd.CombinedOutput()
		if err != nil {
			p.Fatalf("hook %s: %v\n%s", name, err, out)
		}
		shown += string(out)
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
	event("PreToolUse") // act does the work of a command
	act()
	event("PostToolUse")
	record("assistant", "done")
	event("Stop")
	return shown
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
	if out := p.segno("diff", "t2", "t3"); !strings.Contains(out, p.database+": 1 table, public.orders new with 1 row\n") {
		t.Error(out)
	}
	if out := p.segno("show", "t2"); !strings.Contains(out, p.database+": 1 table, public.items from 100 to 101 rows\n") {
		t.Error(out)
	}
	p.segno("undo", "-y")
	p.want("after two", p.sql(count), "101 101")
	p.segno("undo", "-y")
	p.want("after three", p.sql(count), "100 100")
	p.want("the sequence after three", p.sql(`SELECT nextval('items_id_seq')`), "101")
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

// A turn drops database objects of all kinds. A move restores them exactly, and the database then counts as unchanged.
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

	// An archive contains the database as statements for psql.
	p.segno("save")
	before = p.dump()
	archive, unpacked := filepath.Join(p.home, "a.ckpt"), filepath.Join(p.home, "unpacked")
	p.segno("pack", "@", "-o", archive)
	p.segno("unpack", archive, "--to", unpacked)
	p.sql(`DROP EVENT TRIGGER evt`)
	p.admin("DROP DATABASE " + p.database)
	p.admin("CREATE DATABASE " + p.database)
	if out, err := exec.Command("psql", "-qX", "-f", filepath.Join(unpacked, "world.snapshot"), p.url(p.database)).CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	p.want("the unpacked database", p.dump(), before)
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

// A move is killed at a random moment, repeatedly. The database has its old content or the new one, and
// the next command completes the move.
func TestKilledMovesOfPostgres(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) i`)
	p.segno("save")
	p.segno("world", "attach", p.url(p.database))
	p.turn("change", func() {
		p.write("a", "1")
		p.sql(`UPDATE t SET x = 1; CREATE TABLE u (y int); INSERT INTO u VALUES (1)`)
	})
	rounds := soak.Count(t, 2, 200)
	longest := 100 * time.Millisecond
	undone := false
	for range rounds {
		verb := "undo"
		if undone {
			verb = "redo"
		}
		cmd := p.command(verb, "-y")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // pg_dump is killed, too
		begun := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(rand.N(longest), func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		err := cmd.Wait()
		if timer.Stop() && err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(begun)*5/4)
		p.admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '` + p.database + `' AND pid <> pg_backend_pid()`)
		state := p.sql(`SELECT min(x), max(x), count(*), to_regclass('u') IS NULL FROM t`)
		if state != "0 0 5000 t" && state != "1 1 5000 f" {
			t.Fatalf("after a kill of %s the database is %s", verb, state)
		}
		p.segno("save") // completes the interrupted move
		state = p.sql(`SELECT max(x) FROM t`)
		a, err := os.ReadFile(filepath.Join(p.dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		p.want("the file beside the database", string(a), state)
		undone = state == "0"
	}
}

func TestPostgresIsRefused(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int); INSERT INTO t VALUES (1)`)
	p.segno("save")
	fails := func(want string, code int, args ...string) {
		t.Helper()
		out, got := p.try(args...)
		if got != code || !strings.Contains(out, want) || strings.Contains(out, "pa55") {
			t.Errorf("segno %s: exit code %d\n%swant %d and %q", strings.Join(args, " "), got, out, code, want)
		}
	}
	fails("is not on this machine", 5, "world", "attach", "postgres://joe:pa55word@db.example/dev")
	fails("names more than one server", 2, "world", "attach", "postgres://joe:pa55word@127.0.0.1,db.example/dev")
	fails("is malformed", 2, "world", "attach", "postgres://joe:pa55/word@127.0.0.1/dev")
	fails("check that the server runs", 9, "world", "attach", "postgres://joe:pa55word@127.0.0.1:1/dev")
	fails("does not exist", 9, "world", "attach", p.url("none"))
	path := p.env
	p.env = append(p.env, "PATH=/none")
	fails("pg_dump is not installed", 2, "world", "attach", p.url(p.database))
	p.env = path

	p.segno("world", "attach", p.url(p.database))
	fails("attached already", 11, "world", "attach", p.url(p.database))
	p.turn("change", func() { p.sql(`UPDATE t SET x = 2`) })

	// Another client is connected.
	client := p.connect(p.database)
	defer client.Close(t.Context())
	fails("the database is open in", 5, "undo", "-y")
	if _, err := (postgresConn{client}).Exec(t.Context(), `BEGIN; SELECT * FROM t`); err != nil {
		t.Fatal(err)
	}
	fails("locked", 4, "undo", "-y", "--while-running")
	p.want("the database while it is locked", p.sql(`SELECT x FROM t`), "2")
	if _, err := (postgresConn{client}).Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	p.segno("redo", "-y", "--while-running")
	p.segno("undo", "-y", "--while-running")
	rows, err := (postgresConn{client}).Exec(t.Context(), `SELECT x FROM t`)
	if err != nil || len(rows) != 1 || rows[0][0] != "1" {
		t.Errorf("the client sees %v, %v", rows, err)
	}
	client.Close(t.Context())

	// A change since the turn is a conflict.
	p.segno("redo", "-y")
	p.sql(`INSERT INTO t VALUES (7)`)
	fails("changed outside the turn since it began", 4, "undo", "-y")

	// The role may not read everything, or the database no longer exists: the turn is still recorded.
	p.sql(`DROP TABLE t`)
	p.admin(`ALTER DATABASE ` + p.database + ` RENAME TO ` + p.database + `_away`)
	p.turn("without the database", func() { p.write("a", "2") })
	p.admin(`ALTER DATABASE ` + p.database + `_away RENAME TO ` + p.database)
	if out := p.segno("log"); !strings.Contains(out, "without the database") {
		t.Error(out)
	}
	fails("was not saved then", 4, "undo", "-y")
	p.segno("world", "detach", p.url(p.database))
}

func TestForkOfPostgres(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int); INSERT INTO t VALUES (1)`)
	p.turn("begin", func() { p.write("a", "1") })
	p.segno("world", "attach", p.url(p.database))
	p.turn("change", func() { p.sql(`UPDATE t SET x = 2`) })
	copied := p.database + "_project_fork"
	t.Cleanup(func() { p.admin("DROP DATABASE IF EXISTS " + copied) })
	out := p.segno("fork", "t2", "--to", filepath.Join(filepath.Dir(p.dir), "project-Fork"))
	if !strings.Contains(out, copied) {
		t.Error(out)
	}
	p.want("the copy", p.on(copied, `SELECT x FROM t`), "2")
	p.on(copied, `UPDATE t SET x = 3`)
	p.want("the source", p.sql(`SELECT x FROM t`), "2")
	fork := *p
	fork.dir = filepath.Join(filepath.Dir(p.dir), "project-Fork")
	if out := fork.segno("status"); !strings.Contains(out, "changed since then") {
		t.Error(out)
	}
	fork.segno("undo", "-y", "--force")
	p.want("the copy", p.on(copied, `SELECT x FROM t`), "1")
	p.want("the source", p.sql(`SELECT x FROM t`), "2")
	if out, code := p.try("fork", "t2", "--to", filepath.Join(filepath.Dir(p.dir), "project_fork")); code != 11 || !strings.Contains(out, "already exists") {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(p.dir), "project_fork")); err == nil {
		t.Error("a fork was begun although its database cannot be created")
	}
}
