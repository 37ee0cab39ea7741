package database

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// connectTimeout is how long a turn waits for a server.
const connectTimeout = 2 * time.Second

// postgresSession is a connection to an attached database.
type postgresSession struct {
	pg   Postgres
	at   Attachment
	conn PostgresConn
}

// open connects, executes a first statement in the same message, and returns its rows.
func (s *postgresSession) open(ctx context.Context, first string) (rows [][]string, err error) {
	if s.pg == nil {
		return nil, errors.New("this program has no driver of PostgreSQL")
	}
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if s.conn, err = s.pg.Connect(dial, s.at.URL); err != nil {
		return nil, err
	}
	// The texts of values must not depend on the settings of a user.
	return s.conn.Exec(ctx, `SET application_name = 'segno'; SET client_encoding = 'UTF8'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres';
		SET default_transaction_read_only = off; SET timezone = 'UTC'; SET extra_float_digits = 1; SET bytea_output = 'hex'; SET row_security = off; SET statement_timeout = 0;
		SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '`+fmt.Sprint(busyMillis)+`ms'; SET search_path = ''; `+first)
}

func (s *postgresSession) close(ctx context.Context) {
	if s.conn != nil {
		_ = s.conn.Close(context.WithoutCancel(ctx)) // this rolls back an open transaction
		s.conn = nil
	}
}

// value returns the only value of a query.
func (s *postgresSession) value(ctx context.Context, sql string) (string, error) {
	rows, err := s.conn.Exec(ctx, sql)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return "", errors.New("the server returned no value")
	}
	return rows[0][0], nil
}

// checkSupported returns an error if a move could not restore the database.
func (s *postgresSession) checkSupported(ctx context.Context) error {
	why, err := s.value(ctx, fmt.Sprintf(`SELECT CASE
		WHEN pg_database_size(current_database()) > %d THEN 'the database has more than %d GiB'
		WHEN pg_is_in_recovery() THEN 'the server is a replica'
		WHEN EXISTS (SELECT FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())) THEN 'the database has a subscription'
		ELSE '' END`, maxPostgresBytes, maxPostgresBytes>>30))
	if err != nil && strings.Contains(err.Error(), "pg_subscription") { // only superusers may read this table
		return nil
	}
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return err
}

// catalogs returns the system tables that describe the objects of a database. When an object changes, it gets a new
// row.
func catalogs() []string {
	return []string{"pg_class", "pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_proc", "pg_type", "pg_trigger", "pg_namespace", "pg_rewrite",
		"pg_enum", "pg_sequence", "pg_policy", "pg_extension", "pg_description", "pg_operator", "pg_cast", "pg_default_acl", "pg_event_trigger",
		"pg_collation", "pg_publication", "pg_publication_rel", "pg_statistic_ext", "pg_foreign_server", "pg_foreign_table", "pg_foreign_data_wrapper",
		"pg_range", "pg_inherits", "pg_ts_config", "pg_ts_dict", "pg_language", "pg_largeobject_metadata", "pg_aggregate", "pg_opclass", "pg_conversion"}
}

// catalogState returns a text that changes with each change of the description of the database.
func (s *postgresSession) catalogState(ctx context.Context) (string, error) {
	var parts []string
	for _, name := range catalogs() {
		// The many rows that initdb made have the xids 1 to 3.
		parts = append(parts, `SELECT count(*) n, sum(('x' || substr(md5(xmin::text || ctid::text || '`+name+`'), 1, 15))::bit(60)::bigint) h FROM pg_catalog.`+name+
			` WHERE xmin::text::bigint > 3`)
	}
	return s.value(ctx, `SELECT sum(n) || ' ' || sum(h) FROM (`+strings.Join(parts, " UNION ALL ")+`) c`)
}

// selectEvidence returns a text that changes whenever a writing transaction ends, or a sequence advances without a
// transaction id. Except for the sequences, it covers the whole server. The text is valid for the transaction of the
// statement, and contains its snapshot.
const selectEvidence = `SELECT d.oid || ' ' || pg_postmaster_start_time() || ' ' || txid_current_snapshot() || ' ' ||
	(SELECT md5(coalesce(string_agg(c.oid || ':' || coalesce(CASE WHEN c.relpersistence <> 't' AND has_sequence_privilege(c.oid, 'SELECT')
			THEN pg_sequence_last_value(c.oid) END::text, ''), ' ' ORDER BY c.oid), ''))
		FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid)
	FROM pg_database d WHERE datname = current_database()`

// sequences returns the states of all sequences.
func (s *postgresSession) sequences(ctx context.Context) (all []pgSequence, err error) {
	query, err := s.value(ctx, `SELECT string_agg(format('SELECT %L, last_value, is_called FROM %I.%I', quote_ident(n.nspname) || '.' || quote_ident(c.relname), n.nspname, c.relname),
			' UNION ALL ' ORDER BY n.nspname, c.relname)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'S' AND c.relpersistence <> 't'
		AND NOT EXISTS (SELECT FROM pg_depend x WHERE x.classid = 'pg_class'::regclass AND x.objid = c.oid AND x.deptype = 'e')`)
	if err != nil || query == "" {
		return nil, err
	}
	rows, err := s.conn.Exec(ctx, query)
	for _, r := range rows {
		all = append(all, pgSequence{Name: r[0], Last: r[1], Called: r[2] == "t"})
	}
	return all, err
}

func errIf(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}

// clients describes the connections of other programs to the database.
func (s *postgresSession) clients(ctx context.Context) (found []string, err error) {
	const query = `SELECT coalesce(nullif(application_name, ''), 'a program of ' || coalesce(usename, 'another user')) || ' (pid ' || pid || ' of the server)'
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'segno'
		AND coalesce(backend_type, 'client backend') = 'client backend' ORDER BY pid`
	rows, err := s.conn.Exec(ctx, query)
	if err == nil && len(rows) > 0 { // wait: the server may not know yet that a program closed its connection
		rows, err = s.conn.Exec(ctx, `SELECT pg_sleep(0.2); SELECT pg_stat_clear_snapshot(); `+query)
	}
	for _, r := range rows {
		found = append(found, r[0])
	}
	return found, err
}
