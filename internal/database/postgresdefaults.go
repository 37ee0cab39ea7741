package database

import "context"

// listDefaults returns the statements that reset all default privileges. Those of a role in a schema begin as none, and those of a role in
// all schemas as the privileges that the server gives without any. PostgreSQL deletes a row that has become equal to these.
const listDefaults = `WITH d AS (
		SELECT defaclobjtype AS type, defaclnamespace = 0 AS is_global, defaclacl AS acl, quote_ident(r.rolname) AS owner,
			format('ALTER DEFAULT PRIVILEGES FOR ROLE %I %s', r.rolname, 'IN SCHEMA ' || quote_ident(n.nspname)) AS head,
			CASE defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS'
				ELSE 'LARGE OBJECTS' END AS what
		FROM pg_default_acl JOIN pg_roles r ON r.oid = defaclrole LEFT JOIN pg_namespace n ON n.oid = defaclnamespace)
	SELECT statement FROM (
		SELECT 1 AS place, head || ' REVOKE ALL ON ' || what || ' FROM ' || (
			SELECT string_agg(DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END, ', ')
			FROM aclexplode(acl) a LEFT JOIN pg_roles g ON g.oid = grantee) AS statement FROM d
		UNION ALL SELECT 2, head || ' GRANT ALL ON ' || what || ' TO ' || owner || CASE WHEN type IN ('f', 'T') THEN ', PUBLIC' ELSE '' END FROM d WHERE is_global
	) s WHERE statement IS NOT NULL ORDER BY place, statement`

// resetDefaults resets the default privileges of the database. An object that the state creates would have the present ones, and the
// statements of pg_dump set only those of the state, after all objects.
func (l *pgLoad) resetDefaults(ctx context.Context) error {
	rows, err := l.conn.Exec(ctx, listDefaults)
	for i := 0; err == nil && i < len(rows); i++ {
		_, err = l.conn.Exec(ctx, rows[i][0])
	}
	return err
}
