package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// role makes a role that owns the database but not everything in it, and returns the URL with which the role connects.
func (p *project) role(attributes string) (name, url string) {
	p.Helper()
	name = "role_" + p.database
	p.admin(fmt.Sprintf(`CREATE ROLE %[1]s LOGIN %[2]s; ALTER DATABASE %[3]s OWNER TO %[1]s`, name, attributes, p.database))
	p.Cleanup(func() {
		p.admin("DROP DATABASE IF EXISTS " + p.database + " WITH (FORCE)")
		p.admin("DROP ROLE IF EXISTS " + name)
	})
	return name, strings.Replace(p.url(p.database), "postgres@", name+"@", 1)
}

// exits checks the exit code of a command, and that its output contains all the given texts.
func (p *project) exits(code int, args []string, want ...string) string {
	p.Helper()
	out, got := p.try(args...)
	if got != code {
		p.Errorf("segno %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			p.Errorf("segno %s: no %q in\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

func words(line string) []string { return strings.Fields(line) }

// A database is not attached if the role may not read all of it. The error has the grant to ask for.
func TestUnreadableDatabaseIsNotAttached(t *testing.T) {
	p := newProject(t, `CREATE TABLE mine (x int); CREATE SCHEMA other; CREATE TABLE other."Two" (x int); CREATE TABLE secret (id serial PRIMARY KEY)`)
	p.segno("save")
	role, url := p.role("")
	p.sql(`ALTER TABLE mine OWNER TO ` + role)
	attach := []string{"world", "attach", url}
	p.exits(5, attach, "may not read", "public.secret", `other."Two"`, "GRANT USAGE ON SCHEMA other TO "+role, `GRANT SELECT ON TABLE other."Two", public.secret TO `+role)
	p.exits(0, words("world list"))
	p.sql(`GRANT USAGE ON SCHEMA other TO ` + role + `; GRANT SELECT ON TABLE other."Two", public.secret TO ` + role)
	p.exits(5, attach, "public.secret_id_seq", "GRANT SELECT ON SEQUENCE public.secret_id_seq TO "+role)
	p.sql(`GRANT SELECT ON SEQUENCE public.secret_id_seq TO ` + role + `; ALTER TABLE mine ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`)
	p.exits(5, attach, "row-level security", "public.mine", "ALTER ROLE "+role+" BYPASSRLS")
	p.sql(`ALTER TABLE mine NO FORCE ROW LEVEL SECURITY; SELECT lo_from_bytea(4711, 'x')`)
	p.exits(5, attach, "large object", "GRANT SELECT ON LARGE OBJECT 4711 TO "+role)
	if out := p.segno("world", "list"); strings.Contains(out, p.database) {
		t.Errorf("a database that was refused is attached:\n%s", out)
	}
	p.sql(`GRANT SELECT ON LARGE OBJECT 4711 TO ` + role)
	p.exits(0, attach, "attached")
}

// A database that becomes unreadable is reported wherever its states are shown, and no move leaves it out silently.
func TestUnreadDatabaseIsReported(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int); INSERT INTO t VALUES (1)`)
	p.turn("begin", func() { p.write("a", "1") })
	role, url := p.role("")
	p.sql(`ALTER TABLE t OWNER TO ` + role)
	p.segno("world", "attach", url)
	hide := func() { p.sql(`ALTER TABLE t OWNER TO postgres`) }
	const why = "may not read the table public.t"
	name := "database postgres://"

	p.turn("saved", func() { p.write("a", "2"); p.sql(`UPDATE t SET x = 2`) })
	line := p.turn("half saved", func() { p.write("a", "3"); p.sql(`UPDATE t SET x = 3`); hide() })
	if !strings.Contains(line, "is not saved") || !strings.Contains(line, why) {
		t.Errorf("at the end of the turn the hook shows %q", line)
	}
	line = p.turn("unread", func() { p.write("a", "4"); p.sql(`UPDATE t SET x = 4`) })
	if strings.Count(line, "is not saved") != 1 || !strings.Contains(line, why) {
		t.Errorf("during a turn without the database the hook shows %q", line)
	}

	if out := p.exits(0, words("show"), "not saved: "+name, why); strings.Contains(out, "gone") {
		t.Errorf("show reports a table as gone:\n%s", out)
	}
	p.exits(0, words("show t3"), "not saved: "+name, why)
	p.exits(0, words("log"), "database not saved")
	p.exits(0, words("log --json"), `"partial": true`)
	p.exits(0, words("status"), "not saved", why)
	p.exits(0, words("diff t3 t4"), "not saved", why)
	p.exits(5, words("doctor"), "not saved", why, "GRANT SELECT")
	p.exits(4, words("save"), "saved", "not saved: "+name, why)
	p.exits(4, words("save --json"), why)
	p.exits(0, words("undo --dry-run"), "! "+name, why)
	p.exits(4, words("undo -y"), "! "+name, why)
	p.exits(4, words("undo -y"), "! "+name, why)
	p.exits(4, words("redo -y"), "! "+name, why)
	p.exits(0, words("restore t2 --dry-run"), "! "+name, why)
	p.exits(4, words("op undo -y"), "! "+name, why)
	p.want("the database", p.sql(`SELECT x FROM t`), "4")

	// The database can be read again, but the state that was not saved remains unknown.
	p.sql(`ALTER TABLE t OWNER TO ` + role)
	p.exits(0, words("save"))
	p.exits(0, words("restore t4 --dry-run"), "! "+name, "was not saved", why)
	p.exits(0, words("restore t2 -y"))
	p.want("the database", p.sql(`SELECT x FROM t`), "2")
	p.exits(4, words("fork t4 --to ../fork"), "not in the fork", why)
}

// A save waits for a lock of another program, and then reports that it has no state of the database.
func TestLockedDatabaseIsReported(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int)`)
	p.segno("save")
	client := p.connect(p.database)
	defer client.Close(context.Background())
	lock := func() {
		t.Helper()
		if _, err := (postgresConn{client}).Exec(t.Context(), `BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
	}
	attach := []string{"world", "attach", p.url(p.database)}
	lock()
	p.exits(7, attach, "locked")
	if _, err := (postgresConn{client}).Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	p.exits(0, attach)
	p.sql(`INSERT INTO t VALUES (1)`)
	lock()
	p.exits(4, words("save"), "not saved: database", "locked")
}
