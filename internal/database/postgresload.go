package database

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/dalsegno/segno"
)

// writePostgres makes a database equal to the state to, in one transaction, if it still equals from or already
// equals to. If it cannot, it changes nothing and returns the reason. It can be repeated after an interruption.
//
// The transaction drops the objects of the database and creates those of the state. So the database keeps its settings,
// owner and rights, and other programs see either the old content or the new content.
func (w *Attached) writePostgres(ctx context.Context, at Attachment, from, to segno.Entity) (conflict string, err error) {
	state, err := readPgState(ctx, w.recent, to.Hash)
	if err != nil {
		return "", err
	}
	if state == nil || from.Type != segno.EntityDatabase {
		return "the database was not saved", nil
	}
	before, err := readPgState(ctx, w.recent, from.Hash)
	if err != nil || before == nil {
		return "", err
	}
	s := postgresSession{pg: w.options.Postgres, at: at}
	defer s.close(ctx)
	if _, err := s.open(ctx, ""); err != nil {
		return describeFailure(err), nil
	}
	l := pgLoad{postgresSession: &s, objects: w.recent, state: state}
	conflict, err = l.replace(ctx, func() (segno.Hash, string, error) { return w.presentPostgres(ctx, at) }, from.Hash, to.Hash)
	var known *segno.Error
	switch {
	case ctx.Err() != nil:
		return "", segno.NewError(segno.KindCancelled, "restore database", at.Name, ctx.Err())
	case err != nil && errors.As(err, &known):
		return "", err
	case isBusy(err):
		return whyLocked, nil
	case err != nil:
		return "it cannot be restored: " + firstLine(w.explainLocks(ctx, at, err)), nil
	}
	return conflict, nil
}

// presentPostgres returns the content of a database and the state of its catalogs, without storing anything.
func (w *Attached) presentPostgres(ctx context.Context, at Attachment) (content segno.Hash, catalog string, err error) {
	s := postgresSession{pg: w.options.Postgres, at: at}
	defer s.close(ctx)
	d := pgDump{postgresSession: &s, batch: discard{}, recent: &recent{newest: map[segno.Hash][]byte{}}}
	if _, err = d.begin(ctx); err != nil {
		return content, "", err
	}
	if catalog, err = s.catalogState(ctx); err != nil {
		return content, "", err
	}
	content, err = d.run(ctx)
	return content, catalog, err
}

// discard is a batch that only computes names.
type discard struct{ segno.Batch }

func (discard) Put(_ context.Context, data []byte) (segno.Hash, error) {
	return segno.HashOf(data), nil
}

// pgLoad writes a state into a database.
type pgLoad struct {
	*postgresSession
	objects getter
	state   *pgState
}

// replace replaces the content of the database.
func (l *pgLoad) replace(ctx context.Context, present func() (segno.Hash, string, error), from, to segno.Hash) (conflict string, err error) {
	content, catalog, err := present()
	switch {
	case err != nil:
		return "", err
	case content == to:
		return "", nil
	case content != from:
		return whyChanged, nil
	}
	if _, err := l.conn.Exec(ctx, `BEGIN ISOLATION LEVEL READ COMMITTED`); err != nil {
		return "", err
	}
	changed, err := l.lockUnchanged(ctx, from, catalog)
	if err != nil || changed {
		return whyChanged, err
	}
	if err := l.drop(ctx); err != nil {
		return "", err
	}
	if err := l.load(ctx); err != nil {
		return "", err
	}
	_, err = l.conn.Exec(ctx, `COMMIT`)
	return "", err
}

// lockUnchanged locks all tables, so that other programs can neither read nor write, and reports whether the
// database changed since its content was read.
func (l *pgLoad) lockUnchanged(ctx context.Context, from segno.Hash, catalog string) (changed bool, err error) {
	rows, err := l.conn.Exec(ctx, listTables)
	if err != nil {
		return false, err
	}
	for _, r := range rows {
		if _, err := l.conn.Exec(ctx, "LOCK TABLE ONLY "+r[0]+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return false, err
		}
	}
	now, err := l.catalogState(ctx)
	if err != nil || now != catalog {
		return true, err
	}
	before, err := readPgState(ctx, l.objects, from)
	if err != nil {
		return false, err
	}
	d := pgDump{postgresSession: l.postgresSession, batch: discard{}, recent: &recent{newest: map[segno.Hash][]byte{}}}
	if err := d.tables(ctx); err != nil {
		return false, err
	}
	sequences, err := l.sequences(ctx)
	if err != nil {
		return false, err
	}
	large, err := d.large(ctx)
	return err == nil && (fmt.Sprint(d.state.Tables) != fmt.Sprint(before.Tables) || fmt.Sprint(sequences) != fmt.Sprint(before.Sequences) ||
		large != before.Large), err
}

// listObjects lists the types and names of the objects that a state replaces, except objects in tables and extensions.
// The schema public stays, because pg_dump expects it.
const listObjects = `SELECT CASE i.type WHEN 'statistics object' THEN 'statistics' WHEN 'composite type' THEN 'type' ELSE replace(i.type, '-', ' ') END, i.identity FROM (
	SELECT 1 first, 'pg_event_trigger'::regclass c, oid o FROM pg_event_trigger
	UNION ALL SELECT 2, 'pg_publication'::regclass, oid FROM pg_publication
	UNION ALL SELECT 3, 'pg_namespace'::regclass, oid FROM pg_namespace WHERE nspname NOT IN ('public', 'information_schema') AND nspname !~ '^pg_'
	UNION ALL SELECT 4, classid, objid FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace('public') AND deptype = 'n'
		AND classid NOT IN ('pg_extension'::regclass, 'pg_default_acl'::regclass)
	UNION ALL SELECT 5, 'pg_transform'::regclass, oid FROM pg_transform
	UNION ALL SELECT 6, 'pg_cast'::regclass, oid FROM pg_cast WHERE oid >= 16384
	UNION ALL SELECT 7, 'pg_foreign_server'::regclass, oid FROM pg_foreign_server
	UNION ALL SELECT 8, 'pg_foreign_data_wrapper'::regclass, oid FROM pg_foreign_data_wrapper
	UNION ALL SELECT 9, 'pg_language'::regclass, oid FROM pg_language WHERE oid >= 16384
	) x, pg_identify_object(x.c, x.o, 0) i
	WHERE NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = x.c AND e.objid = x.o AND e.deptype = 'e') ORDER BY first, i.identity`

// drop drops all objects and resets the privileges of the database, except extensions that are also in the state.
func (l *pgLoad) drop(ctx context.Context) error {
	// First, because no lock excludes other programs from large objects: after this, their writes fail.
	if _, err := l.conn.Exec(ctx, `SELECT lo_unlink(oid) FROM pg_largeobject_metadata`); err != nil {
		return err
	}
	wanted, err := l.wantedExtensions(ctx)
	if err != nil {
		return err
	}
	extensions, err := l.conn.Exec(ctx, `SELECT quote_ident(extname), n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname <> 'plpgsql'`)
	if err != nil {
		return err
	}
	for _, e := range extensions {
		if stays := wanted[e[0]] && (e[1] == "public" || e[1] == "pg_catalog"); stays {
			continue
		}
		if _, err := l.conn.Exec(ctx, `DROP EXTENSION `+e[0]+` CASCADE`); err != nil {
			return err
		}
	}
	objects, err := l.conn.Exec(ctx, listObjects)
	if err != nil {
		return err
	}
	for _, o := range objects { // dropping one object may also drop another
		if _, err := l.conn.Exec(ctx, `DROP `+o[0]+` IF EXISTS `+o[1]+` CASCADE`); err != nil {
			return err
		}
	}
	left, err := l.conn.Exec(ctx, listObjects)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the %s %s cannot be dropped", left[0][0], left[0][1])
	}
	if err == nil {
		err = l.resetPrivileges(ctx)
	}
	if err != nil {
		return err
	}
	return l.resetPublic(ctx)
}

// resetPublic resets the schema public to that of a new database. The statements of pg_dump contain only the
// differences from it.
func (l *pgLoad) resetPublic(ctx context.Context) error {
	if l.state.NoPublic {
		_, err := l.conn.Exec(ctx, `DROP SCHEMA IF EXISTS public CASCADE`)
		return err
	}
	rows, err := l.conn.Exec(ctx, `SELECT o.rolname, o.new = 'pg_database_owner', to_regnamespace('public') IS NULL, (SELECT nspowner = o.oid
			AND obj_description(n.oid, 'pg_namespace') = 'standard public schema'
			AND array_to_string(nspacl, ' ') = format(CASE WHEN o.new = 'pg_database_owner' THEN '%1$s=UC/%1$s =U/%1$s' ELSE '%1$s=UC/%1$s =UC/%1$s' END, o.name)
			FROM pg_namespace n WHERE nspname = 'public'),
		(SELECT coalesce(string_agg(DISTINCT quote_ident(g.rolname), ', '), '') FROM pg_namespace n, aclexplode(nspacl) a, pg_roles g WHERE nspname = 'public' AND g.oid = a.grantee)
		FROM (SELECT oid, quote_ident(rolname) rolname, rolname name, rolname new FROM pg_roles WHERE rolname = 'pg_database_owner' OR oid = 10
			ORDER BY rolname = 'pg_database_owner' DESC LIMIT 1) o`)
	if err != nil || len(rows) != 1 {
		return errors.Join(err, errIf(err == nil, "the server returned no role"))
	}
	owner, isNew, isMissing, isInitial := rows[0][0], rows[0][1] == "t", rows[0][2] == "t", rows[0][3] == "t"
	if isInitial {
		return nil
	}
	statements := ""
	if isMissing {
		statements = `CREATE SCHEMA public; `
	}
	grants := "ALL"
	if isNew {
		grants = "USAGE"
	}
	statements += `ALTER SCHEMA public OWNER TO ` + owner + `; COMMENT ON SCHEMA public IS 'standard public schema'; REVOKE ALL ON SCHEMA public FROM PUBLIC` + comma(rows[0][4]) +
		`; GRANT ALL ON SCHEMA public TO ` + owner + `; GRANT ` + grants + ` ON SCHEMA public TO PUBLIC`
	_, err = l.conn.Exec(ctx, statements)
	return err
}

func comma(list string) string {
	if list == "" {
		return ""
	}
	return ", " + list
}

// wantedExtensions returns the quoted names of the extensions of the state.
func (l *pgLoad) wantedExtensions(ctx context.Context) (map[string]bool, error) {
	text, err := copyAll(ctx, l.objects, l.state.Before)
	wanted := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^CREATE EXTENSION IF NOT EXISTS (\w+|"(?:[^"]|"")+") `).FindAllStringSubmatch(text, -1) {
		wanted[m[1]] = true
	}
	return wanted, err
}

// load creates the objects and the rows of the state in a database without objects.
func (l *pgLoad) load(ctx context.Context) error {
	if err := l.execText(ctx, l.state.Before); err != nil {
		return err
	}
	for _, t := range l.state.Tables {
		r, err := newChunkReader(ctx, l.objects, t.Content)
		if err != nil {
			return err
		}
		if err := l.conn.CopyFrom(ctx, r, "COPY "+t.Name+t.columnList()+" FROM STDIN"); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	for _, q := range l.state.Sequences {
		if _, err := l.conn.Exec(ctx, q.statement()); err != nil {
			return err
		}
	}
	if err := l.loadLarge(ctx); err != nil {
		return err
	}
	return l.execText(ctx, l.state.After)
}

// The statements that write the content of large objects.
const (
	createLarge = `CREATE TEMPORARY TABLE segno_large (id oid, content bytea) ON COMMIT DROP`
	writeLarge  = `SELECT pg_catalog.lo_put(id, 0, content) FROM pg_temp.segno_large`
)

// loadLarge writes the content of large objects, which the statements of the state created.
func (l *pgLoad) loadLarge(ctx context.Context) error {
	if l.state.Large.IsZero() {
		return nil
	}
	r, err := newChunkReader(ctx, l.objects, l.state.Large)
	if err != nil {
		return err
	}
	if _, err := l.conn.Exec(ctx, createLarge); err != nil {
		return err
	}
	if err := l.conn.CopyFrom(ctx, r, `COPY pg_temp.segno_large FROM STDIN`); err != nil {
		return err
	}
	_, err = l.conn.Exec(ctx, writeLarge)
	return err
}

// execText executes the statements of pg_dump.
func (l *pgLoad) execText(ctx context.Context, name segno.Hash) error {
	text, err := readStatements(ctx, l.objects, name)
	if err == nil && text != "" {
		_, err = l.conn.Exec(ctx, text)
	}
	return err
}
