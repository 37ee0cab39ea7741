package database

import (
	"context"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
)

// checkPostgresFork returns an error if the copy of a PostgreSQL database cannot be made.
func (w *Attached) checkPostgresFork(ctx context.Context, at, copied Attachment) error {
	const op = "fork database"
	s := postgresSession{pg: w.options.Postgres, at: at}
	defer s.close(ctx)
	if _, err := s.open(ctx, ""); err != nil {
		return segno.NewError(segno.KindIO, op, at.Name, err).WithHint("start the server, or detach the database")
	}
	target, err := w.options.Postgres.Resolve(copied.URL)
	if err != nil {
		return segno.Errorf(segno.KindInvalid, op, at.Name, "the URL of the database is malformed").WithHint("detach the database and attach it again")
	}
	why, err := s.value(ctx, fmt.Sprintf(`SELECT CASE WHEN EXISTS (SELECT FROM pg_database WHERE datname = %s) THEN 'exists'
		WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND (rolcreatedb OR rolsuper)) THEN 'role' ELSE '' END`, quoteLiteral(target.Database)))
	switch {
	case err != nil:
		return segno.NewError(segno.KindIO, op, at.Name, err)
	case why == "exists":
		return segno.Errorf(segno.KindConflict, op, target.name(), "already exists").WithHint("drop it, or give another directory with --to")
	case why == "role":
		return segno.Errorf(segno.KindRefused, op, target.name(), "the role %s may not create databases", target.User).
			WithHint("give it the right with ALTER ROLE … CREATEDB, or detach the database")
	}
	return nil
}

// forkPostgres creates the copy of a database with a saved content, and returns its name. lost describes the properties
// that the copy lacks because the role is not allowed to set them.
func (w *Attached) forkPostgres(ctx context.Context, at, copied Attachment, content segno.Hash) (name string, lost []string, err error) {
	const op = "fork database"
	state, err := readPgState(ctx, w.recent, content)
	if err != nil || state == nil {
		return "", nil, err
	}
	target, err := w.options.Postgres.Resolve(copied.URL)
	if err != nil {
		return "", nil, segno.Errorf(segno.KindInvalid, op, at.Name, "the URL of the database is malformed")
	}
	name = target.name()
	source := postgresSession{pg: w.options.Postgres, at: at}
	defer source.close(ctx)
	if _, err = source.open(ctx, ""); err == nil {
		err = source.createLike(ctx, target.Database)
	}
	if err != nil {
		return name, nil, segno.NewError(segno.KindIO, op, name, err)
	}
	s := postgresSession{pg: w.options.Postgres, at: copied}
	defer s.close(ctx)
	if _, err = s.open(ctx, `BEGIN`); err == nil {
		err = (&pgLoad{postgresSession: &s, objects: w.recent, state: state}).load(ctx)
	}
	if err == nil {
		_, err = s.conn.Exec(ctx, `COMMIT`)
	}
	if err == nil { // load first, because a copied setting could affect the load
		lost, err = source.copyProperties(ctx, target.Database)
	}
	if err != nil {
		s.close(ctx)
		if dropErr := w.dropCopy(ctx, at, target.Database); dropErr != nil {
			err = fmt.Errorf("%w; the copy was not dropped: %w", err, dropErr)
		}
		return name, nil, segno.NewError(segno.KindIO, op, name, err)
	}
	return name, lost, nil
}

// dropTime limits how long a copy that is not complete is dropped after its fork was cancelled.
const dropTime = 10 * time.Second

// dropCopy drops a copy that is not complete. It connects again, because the end of ctx closes the connection whose statement it ends.
func (w *Attached) dropCopy(ctx context.Context, at Attachment, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	s := postgresSession{pg: w.options.Postgres, at: at}
	defer s.close(ctx)
	if _, err := s.open(ctx, ""); err != nil {
		return err
	}
	_, err := s.conn.Exec(ctx, `DROP DATABASE `+quoteName(name))
	return err
}

// selectCreate returns the statement that creates an empty database with the encoding and the sort order of the present
// one. It reads the row as JSON, because the columns for the locale differ between versions of PostgreSQL.
const selectCreate = `SELECT format('CREATE DATABASE %%I TEMPLATE template0 ENCODING %%L LC_COLLATE %%L LC_CTYPE %%L', %s::text,
		pg_encoding_to_char((d->>'encoding')::int), d->>'datcollate', d->>'datctype') ||
	CASE d->>'datlocprovider'
		WHEN 'i' THEN ' LOCALE_PROVIDER icu ICU_LOCALE ' || quote_literal(coalesce(d->>'datlocale', d->>'daticulocale')) ||
			coalesce(' ICU_RULES ' || quote_literal(d->>'daticurules'), '')
		WHEN 'b' THEN ' LOCALE_PROVIDER builtin BUILTIN_LOCALE ' || quote_literal(d->>'datlocale')
		WHEN 'c' THEN ' LOCALE_PROVIDER libc' ELSE '' END
	FROM (SELECT to_jsonb(x) d FROM pg_database x WHERE datname = current_database()) y`

func (s *postgresSession) createLike(ctx context.Context, name string) error {
	statement, err := s.value(ctx, fmt.Sprintf(selectCreate, quoteLiteral(name)))
	if err == nil {
		_, err = s.conn.Exec(ctx, statement)
	}
	return err
}

// selectProperties returns the statements that copy the comment, the settings, the rights, the limit of connections and
// the owner of the present database to another. The owner is last, because only an owner may set the others. PostgreSQL
// keeps the value of some settings as a list of quoted names, which is not a literal.
const selectProperties = `WITH d AS (SELECT *, quote_ident(%s::text) AS name FROM pg_database WHERE datname = current_database())
	SELECT statement FROM (
		SELECT 1 AS place, 'COMMENT ON DATABASE ' || name || ' IS ' || quote_literal(shobj_description(oid, 'pg_database')) AS statement FROM d
		UNION ALL SELECT 2, CASE WHEN setrole = 0 THEN 'ALTER DATABASE ' || name ELSE 'ALTER ROLE ' || quote_ident(r.rolname) || ' IN DATABASE ' || name END ||
			' SET ' || quote_ident(split_part(c, '=', 1)) || ' TO ' || CASE
				WHEN lower(split_part(c, '=', 1)) IN ('local_preload_libraries', 'search_path', 'session_preload_libraries', 'temp_tablespaces')
					THEN replace(substr(c, strpos(c, '=') + 1), '""', '''''')
				ELSE quote_literal(substr(c, strpos(c, '=') + 1)) END
			FROM d JOIN pg_db_role_setting ON setdatabase = d.oid LEFT JOIN pg_roles r ON r.oid = setrole, unnest(setconfig) c
		UNION ALL SELECT 3, 'REVOKE ALL ON DATABASE ' || name || ' FROM PUBLIC, CURRENT_USER' FROM d WHERE datacl IS NOT NULL
		UNION ALL SELECT 4, 'GRANT ' || privilege_type || ' ON DATABASE ' || name || ' TO ' ||
			CASE grantee WHEN 0 THEN 'PUBLIC' WHEN datdba THEN 'CURRENT_USER' ELSE quote_ident(g.rolname) END || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
			FROM d, aclexplode(datacl) a LEFT JOIN pg_roles g ON g.oid = grantee
		UNION ALL SELECT 5, 'ALTER DATABASE ' || name || ' CONNECTION LIMIT ' || datconnlimit FROM d WHERE datconnlimit >= 0
		UNION ALL SELECT 6, 'ALTER DATABASE ' || name || ' OWNER TO ' || quote_ident(o.rolname) FROM d JOIN pg_roles o ON o.oid = datdba WHERE o.rolname <> current_user
	) p WHERE statement IS NOT NULL ORDER BY place`

// copyProperties copies the properties that are not part of the content from the present database. It returns a
// description of those that the role is not allowed to set.
func (s *postgresSession) copyProperties(ctx context.Context, name string) (lost []string, err error) {
	rows, err := s.conn.Exec(ctx, fmt.Sprintf(selectProperties, quoteLiteral(name)))
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if _, err := s.conn.Exec(ctx, r[0]); ctx.Err() != nil {
			return lost, ctx.Err()
		} else if err != nil {
			lost = append(lost, fmt.Sprintf("%s: %v", r[0], oneLine(err)))
		}
	}
	return lost, nil
}
