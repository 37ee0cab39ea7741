package database

import (
	"context"
	"fmt"
	"strings"
)

// rightsError reports the objects that a role is not allowed to read. A dump without them would be
// incomplete.
type rightsError struct {
	why, hint string
}

func (e *rightsError) Error() string { return e.why }

// listUnreadable lists the objects that the role is not allowed to read, each with the word for its kind and its name.
// With the server's setting lo_compat_privileges, access to large objects is not checked. Partitioned tables have no
// rows, but pg_dump locks them, too.
const listUnreadable = `WITH own AS (
		SELECT c.oid, c.relkind, c.relnamespace, n.nspname, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'S') AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
		AND NOT EXISTS (SELECT FROM pg_depend x WHERE x.classid = 'pg_class'::regclass AND x.objid = c.oid AND x.deptype = 'e'))
	SELECT quote_ident(current_user), kind, name FROM (
		SELECT DISTINCT 1 AS place, 'schema' AS kind, quote_ident(nspname) AS name FROM own WHERE NOT has_schema_privilege(relnamespace, 'USAGE')
		UNION ALL SELECT 2, 'table', name FROM own WHERE relkind <> 'S' AND NOT has_table_privilege(oid, 'SELECT')
		UNION ALL SELECT 3, 'sequence', name FROM own WHERE CASE WHEN relkind = 'S' THEN NOT has_sequence_privilege(oid, 'SELECT') END
		UNION ALL SELECT 4, 'large object', oid::text FROM pg_catalog.pg_largeobject_metadata l
			WHERE current_setting('lo_compat_privileges') = 'off' AND NOT pg_has_role(lomowner, 'USAGE')
			AND NOT EXISTS (SELECT FROM aclexplode(lomacl) a WHERE privilege_type = 'SELECT' AND (grantee = 0 OR pg_has_role(grantee, 'USAGE')))
		UNION ALL SELECT 5, 'rows', name FROM own WHERE CASE WHEN relkind = 'r' THEN row_security_active(oid) END
	) u ORDER BY place, name COLLATE "C"`

// The maximum numbers of names on one line.
const (
	maxNamed   = 4
	maxGranted = 20
)

// checkRights returns a [rightsError] if the role is not allowed to read the whole database.
func (s *postgresSession) checkRights(ctx context.Context) error {
	rows, err := s.conn.Exec(ctx, listUnreadable)
	if err != nil || len(rows) == 0 {
		return err
	}
	role, names := rows[0][0], map[string][]string{}
	for _, r := range rows {
		names[r[1]] = append(names[r[1]], r[2])
	}
	if hidden := names["rows"]; len(rows) == len(hidden) {
		return &rightsError{fmt.Sprintf("row-level security hides rows of the %s from the role %s", listed("table", hidden), role),
			"ask a superuser for: ALTER ROLE " + role + " BYPASSRLS"}
	}
	var what, grants []string
	for _, k := range []struct{ kind, grant string }{
		{"schema", "USAGE ON SCHEMA"}, {"table", "SELECT ON TABLE"}, {"sequence", "SELECT ON SEQUENCE"}, {"large object", "SELECT ON LARGE OBJECT"},
	} {
		all := names[k.kind]
		if len(all) == 0 {
			continue
		}
		what = append(what, listed(k.kind, all))
		if len(all) > maxGranted {
			all = append(all[:maxGranted:maxGranted], "…")
		}
		grants = append(grants, "GRANT "+k.grant+" "+strings.Join(all, ", ")+" TO "+role)
	}
	return &rightsError{fmt.Sprintf("the role %s may not read the %s", role, strings.Join(what, ", the ")), "ask their owner for: " + strings.Join(grants, "; ")}
}

// listed names objects of one kind. If there are many, it names only the first ones.
func listed(kind string, names []string) string {
	if len(names) > 1 {
		kind += "s"
	}
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s %s and %d more", kind, strings.Join(names[:maxNamed], ", "), more)
	}
	return kind + " " + strings.Join(names, ", ")
}
