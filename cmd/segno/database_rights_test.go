package main

import (
	"strings"
	"testing"
)

// TestDefaultPrivilegesMoveWithADatabase undoes and redoes turns that change default privileges, and one that changes a row where default
// privileges are set. A move leaves the rights of each object as they were saved.
func TestDefaultPrivilegesMoveWithADatabase(t *testing.T) {
	p := newProject(t, `CREATE SCHEMA shop; CREATE TABLE salaries (x int); INSERT INTO salaries VALUES (1); CREATE FUNCTION pay() RETURNS int LANGUAGE sql AS 'SELECT 1';
		ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC; ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT INSERT ON TABLES TO PUBLIC;
		ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`)
	p.segno("save")
	p.segno("world", "attach", p.url(p.database))
	before := p.dump()
	p.turn("a row", func() { p.sql(`INSERT INTO salaries VALUES (2)`) })
	p.segno("undo", "-y")
	p.want("the database after the undo of a row", p.dump(), before)

	p.turn("default privileges", func() {
		p.sql(`ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM PUBLIC; ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
			ALTER DEFAULT PRIVILEGES GRANT UPDATE ON TABLES TO PUBLIC; ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO PUBLIC`)
	})
	after := p.dump()
	p.segno("undo", "-y")
	p.want("the database after the undo of default privileges", p.dump(), before)
	if out := p.segno("status"); strings.Contains(out, "changed since then") {
		t.Error(out)
	}
	p.segno("redo", "-y")
	p.want("the database after redo", p.dump(), after)
}

// TestRightsOnAnExtensionMoveWithADatabase undoes and redoes a turn that changes the rights on members of extensions, which a move does not
// drop with the other objects.
func TestRightsOnAnExtensionMoveWithADatabase(t *testing.T) {
	p := newProject(t, `CREATE EXTENSION pgcrypto; CREATE EXTENSION citext; CREATE TABLE t (x int, y citext); INSERT INTO t VALUES (1, 'A')`)
	p.segno("save")
	p.segno("world", "attach", p.url(p.database))
	before := p.dump()
	p.turn("rights", func() {
		p.sql(`REVOKE EXECUTE ON FUNCTION digest(text, text) FROM PUBLIC; REVOKE USAGE ON TYPE citext FROM PUBLIC; INSERT INTO t VALUES (2, 'B')`)
	})
	after := p.dump()
	if before == after || !strings.Contains(after, "FUNCTION public.digest(text, text) FROM PUBLIC") {
		t.Fatal("pg_dump does not show the rights")
	}
	p.segno("undo", "-y")
	p.want("the database after the undo", p.dump(), before)
	p.segno("redo", "-y")
	p.want("the database after the redo", p.dump(), after)
}

// TestDefaultPrivilegesOfAnotherRole attaches a database with a role that owns it and may not change the default privileges of another
// role, such as those of an administrator. Moves work, and leave these.
func TestDefaultPrivilegesOfAnotherRole(t *testing.T) {
	p := newProject(t, "")
	role, url := p.role("")
	p.sql(`SET ROLE ` + role + `; CREATE SCHEMA shop; CREATE TABLE shop.t (x int)`)
	p.segno("save")
	p.segno("world", "attach", url)
	p.turn("a row", func() {
		p.sql(`ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC; SET ROLE ` + role + `; INSERT INTO shop.t VALUES (1)`)
	})
	p.segno("undo", "-y")
	p.want("rows after the undo", p.sql(`SELECT count(*) FROM shop.t`), "0")
	p.want("the default privileges of the administrator", p.sql(`SELECT count(*) FROM pg_default_acl`), "1")
}
