package database

import "context"

// listDefaults returns the statements that reset all default privileges, except those of roles that the role may not change. Those of a role in
// a schema begin as none, and those of a role in all schemas as the privileges that the server gives without any. PostgreSQL deletes a row that
// has become equal to these.
const listDefaults = `WITH d AS (
		SELECT defaclobjtype AS type, defaclnamespace = 0 AS is_global, defaclacl AS acl, quote_ident(r.rolname) AS owner,
			format('ALTER DEFAULT PRIVILEGES FOR ROLE %I %s', r.rolname, 'IN SCHEMA ' || quote_ident(n.nspname)) AS head,
			CASE defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS'
				ELSE 'LARGE OBJECTS' END AS what
		FROM pg_default_acl JOIN pg_roles r ON r.oid = defaclrole LEFT JOIN pg_namespace n ON n.oid = defaclnamespace
		WHERE pg_has_role(defaclrole, 'USAGE'))
	SELECT statement FROM (
		SELECT 1 AS place, head || ' REVOKE ALL ON ' || what || ' FROM ' || (
			SELECT string_agg(DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END, ', ')
			FROM aclexplode(acl) a LEFT JOIN pg_roles g ON g.oid = grantee) AS statement FROM d
		UNION ALL SELECT 2, head || ' GRANT ALL ON ' || what || ' TO ' || owner || CASE WHEN type IN ('f', 'T') THEN ', PUBLIC' ELSE '' END FROM d WHERE is_global
	) s WHERE statement IS NOT NULL ORDER BY place, statement`

// listChangedRights returns the statements that give the members of extensions the rights that they had when the extension was created. It leaves
// out those that the role does not own.
const listChangedRights = `WITH o AS (
		SELECT 'pg_proc'::regclass AS class, oid, proacl AS acl, proowner AS owner, 'f'::"char" AS type, 'ROUTINE ' || oid::regprocedure AS name FROM pg_proc
		UNION ALL SELECT 'pg_class'::regclass, oid, relacl, relowner, CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END,
			CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || oid::regclass FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'f', 'p', 'S')
		UNION ALL SELECT 'pg_type'::regclass, oid, typacl, typowner, 'T', 'TYPE ' || format_type(oid, NULL) FROM pg_type WHERE typacl IS NOT NULL),
	m AS (SELECT o.name, o.acl, coalesce(i.initprivs, acldefault(o.type, o.owner)) AS initial, acldefault(o.type, o.owner) AS basic
		FROM o JOIN pg_depend d ON d.classid = o.class AND d.objid = o.oid AND d.deptype = 'e'
		LEFT JOIN pg_init_privs i ON i.classoid = o.class AND i.objoid = o.oid AND i.objsubid = 0
		WHERE o.acl IS DISTINCT FROM i.initprivs AND pg_has_role(o.owner, 'USAGE'))
	SELECT statement FROM (
		SELECT 1 AS place, 'REVOKE ALL ON ' || name || ' FROM ' || string_agg(DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, ', ') || ' CASCADE' AS statement
			FROM m, aclexplode(coalesce(acl, basic)) a LEFT JOIN pg_roles r ON r.oid = grantee GROUP BY name
		UNION ALL SELECT 2, 'GRANT ' || privilege_type || ' ON ' || name || ' TO ' || CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END ||
				CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
			FROM m, aclexplode(initial) a LEFT JOIN pg_roles r ON r.oid = grantee
	) s WHERE statement IS NOT NULL ORDER BY place, statement`

// resetPrivileges resets the default privileges, and the rights on the members of extensions that stay. An object that the state creates would
// have the present default privileges. The statements of pg_dump contain only the differences from a new database with these extensions.
func (l *pgLoad) resetPrivileges(ctx context.Context) error {
	for _, list := range []string{listDefaults, listChangedRights} {
		rows, err := l.conn.Exec(ctx, list)
		for i := 0; err == nil && i < len(rows); i++ {
			_, err = l.conn.Exec(ctx, rows[i][0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
