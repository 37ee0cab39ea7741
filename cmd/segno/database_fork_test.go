package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// properties returns the output of pg_dumpall about a database, without its content, under one name.
func (p *project) properties(database string) string {
	p.Helper()
	out, err := exec.Command("pg_dump", "--create", "--schema-only", "--dbname="+p.url(database)).CombinedOutput()
	if err != nil {
		p.Fatalf("pg_dump: %v\n%s", err, out)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\restrict`) && !strings.HasPrefix(line, `\unrestrict`) {
			lines = append(lines, strings.ReplaceAll(line, database, "NAME"))
		}
	}
	return strings.Join(lines, "")
}

// A fork has everything that makes its database behave like the source: the sort order, the settings, the rights.
func TestForkKeepsPropertiesOfPostgres(t *testing.T) {
	type properties struct{ what, create, order string }
	for _, x := range soak.Some(t, 1, []properties{
		{"icu", "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-u-co-phonebk'", "ad ä af b C"},
		{"latin1", "TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'", "C ad af b ä"},
	}...) {
		t.Run(x.what, func(t *testing.T) {
			p := newProject(t, "")
			if p.admin("SHOW server_version_num") >= "160000" && x.what == "icu" {
				x.create += " ICU_RULES '&b < C <<< c'"
				x.order = "ad ä af b C"
			}
			suffix := strings.TrimPrefix(p.database, "dev_")
			owner, other := "owner_"+suffix, "other_"+suffix
			p.admin("DROP DATABASE " + p.database)
			p.admin("CREATE DATABASE " + p.database + " " + x.create)
			p.admin("CREATE ROLE " + owner + "; CREATE ROLE " + other)
			copied := p.database + "_fork"
			t.Cleanup(func() {
				p.admin("DROP DATABASE IF EXISTS " + copied)
				p.admin("DROP DATABASE IF EXISTS " + p.database)
				p.admin("DROP ROLE " + owner)
				p.admin("DROP ROLE " + other)
			})
			for _, s := range []string{"OWNER TO " + owner, "CONNECTION LIMIT 7", "SET work_mem TO '5MB'", `SET search_path TO "$user", public, "Odd, name"`,
				"SET app.tenant TO 'it''s \\ one'", "SET default_transaction_read_only TO on", "SET timezone TO 'Asia/Tokyo'", "SET temp_tablespaces TO ''"} {
				p.admin("ALTER DATABASE " + p.database + " " + s)
			}
			p.admin("ALTER ROLE " + other + " IN DATABASE " + p.database + " SET statement_timeout TO '7s'")
			p.admin("COMMENT ON DATABASE " + p.database + " IS 'what''s it for'")
			p.admin("REVOKE ALL ON DATABASE " + p.database + " FROM PUBLIC; GRANT CONNECT, TEMPORARY ON DATABASE " + p.database + " TO " + other + " WITH GRANT OPTION")
			p.sql(`BEGIN READ WRITE; CREATE TABLE t (x text PRIMARY KEY); INSERT INTO t VALUES ('b'), (U&'\00E4'), ('ad'), ('af'), ('C'); COMMIT`)
			p.segno("save")
			p.segno("world", "attach", p.url(p.database))
			p.turn("change", func() { p.write("a", "1") })
			p.segno("fork", "@", "--to", filepath.Join(filepath.Dir(p.dir), "fork"))
			p.want("the properties of the fork", p.properties(copied), p.properties(p.database))
			sorted := func(database string) string {
				return strings.ReplaceAll(p.on(database, `SET client_encoding TO 'UTF8'; SELECT x FROM t ORDER BY x`), "\n", " ")
			}
			p.want("the order of the source", sorted(p.database), x.order)
			p.want("the order of the fork", sorted(copied), x.order)
			// The fork has the same state, and both can be moved.
			fork := *p
			fork.dir, fork.database = filepath.Join(filepath.Dir(p.dir), "fork"), copied
			if out := fork.segno("status"); strings.Contains(out, "changed since then") || strings.Contains(out, "not saved") {
				t.Error(out)
			}
			// The fork keeps the name in its checkpoints, and says which database it is.
			for _, verb := range [][]string{{"status"}, {"world", "list"}} {
				if out := fork.segno(verb...); !strings.Contains(out, "/"+copied+"\n") {
					t.Errorf("%s does not name %s:\n%s", verb, copied, out)
				}
			}
			fork.segno("world", "detach", p.url(copied))
		})
	}
}

// A role that may not give the copy to the owner of the source still makes the fork, and receives a notice.
func TestForkReportsLostProperties(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int)`)
	p.segno("save")
	role, url := p.role("CREATEDB")
	p.sql(`ALTER TABLE t OWNER TO ` + role)
	p.admin("ALTER DATABASE " + p.database + " OWNER TO postgres; GRANT CREATE ON DATABASE " + p.database + " TO " + role)
	p.segno("world", "attach", url)
	p.turn("change", func() { p.write("a", "1") })
	t.Cleanup(func() { p.admin("DROP DATABASE IF EXISTS " + p.database + "_fork") })
	p.exits(4, []string{"fork", "@", "--to", filepath.Join(filepath.Dir(p.dir), "fork")}, "the copy is without ALTER DATABASE", "OWNER TO postgres")
}
