package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaVersion is the version of a schema this package writes. Older ones are
// upgraded when they are opened, newer ones refused.
const schemaVersion = 2

// migrations lead from each version to the next. "{}" stands for the schema's name and
// a dot.
//
// Ids are bytes, since text cannot hold NUL. Rows refer to each other by n, except
// where the thread's row has to say it all in one read: its head and tip are ids, and
// session is the record of the newest link.
//
// commits holds every commit. One that is a node of the tree has a line and a depth,
// the number of its ancestors. A line is a run of nodes of one thread, each the only
// continuation of the one before; its number is the n of its first node, whose parent
// is where the line was born. So a line costs nothing but its nodes, and the ancestors
// of a node are found segment by segment: see line.go. turn, high, epoch, link, head
// and tip are the commit's result, for the writer that asks again; NULL is what they
// usually are: high is turn, epoch 0, head and tip the commit itself.
//
// terms finds checkpoints by what they pin. A term is the first eight bytes of a hash,
// session and the likes sixteen; a hit of a term is compared with what was asked for.
//
// phase is the phase of the thread's newest turn, a [segno.Phase]; 0 is not known. It
// changes seldom, and the index on it with it.
//
// What is compressed already is not worth a second try, hence EXTERNAL; a step of some
// kilobytes is one row without a detour, hence toast_tuple_target. Threads change with
// every commit and nothing that changes is indexed, so that the server rewrites a row on
// its own page.
var migrations = [schemaVersion]string{`
CREATE SEQUENCE {}commit_numbers;

CREATE TABLE {}threads (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id bytea NOT NULL UNIQUE,
	hidden bool NOT NULL DEFAULT false,
	head bytea NOT NULL, tip bytea NOT NULL,
	seq bigint NOT NULL, turn bigint NOT NULL, epoch bigint NOT NULL DEFAULT 0,
	changed bigint NOT NULL,
	link bigint, session bytea,
	owner bytea, expires bigint,
	workspace bytea, whole bytea,
	record bytea NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX threads_workspace ON {}threads (workspace) WHERE workspace IS NOT NULL;
CREATE INDEX threads_whole ON {}threads (whole) WHERE whole IS NOT NULL;

CREATE TABLE {}commits (
	n bigint PRIMARY KEY,
	thread bigint NOT NULL, seq bigint NOT NULL,
	parent bigint, line bigint, turn bigint NOT NULL,
	high bigint, epoch bigint, link bigint,
	depth integer,
	id bytea NOT NULL UNIQUE,
	digest bytea NOT NULL,
	head bytea, tip bytea,
	checkpoint bytea,
	entries bytea,
	body text
) WITH (toast_tuple_target = 4080);
ALTER TABLE {}commits ALTER checkpoint SET STORAGE EXTERNAL, ALTER entries SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX commits_seq ON {}commits (thread, seq);
CREATE UNIQUE INDEX commits_line ON {}commits (line, depth) WHERE line IS NOT NULL;
CREATE INDEX commits_body ON {}commits (body) WHERE body IS NOT NULL;

CREATE TABLE {}terms (term bigint NOT NULL, n bigint NOT NULL, PRIMARY KEY (term, n));
CREATE TABLE {}pins (n bigint PRIMARY KEY, name bytea NOT NULL);

CREATE TABLE {}links (
	thread bigint NOT NULL, seq bigint NOT NULL,
	session bytea NOT NULL,
	record bytea NOT NULL,
	PRIMARY KEY (thread, seq)
);
CREATE INDEX links_session ON {}links (session);

CREATE TABLE {}workspaces (
	id bytea PRIMARY KEY,
	path bytea, device bigint, inode bigint,
	record bytea,
	state bytea
);
CREATE INDEX workspaces_path ON {}workspaces (sha256(path));
CREATE INDEX workspaces_inode ON {}workspaces (inode, device);

CREATE TABLE {}operations (n bigint PRIMARY KEY, id bytea NOT NULL UNIQUE, workspace bytea NOT NULL, record bytea NOT NULL);
CREATE INDEX operations_workspace ON {}operations (workspace, n);

CREATE TABLE {}objects (
	name bytea PRIMARY KEY,
	size bigint NOT NULL,
	born bigint NOT NULL,
	data bytea,
	body text
);
ALTER TABLE {}objects ALTER data SET STORAGE EXTERNAL;
CREATE INDEX objects_body ON {}objects (body) WHERE body IS NOT NULL;

CREATE TABLE {}bodies (name text PRIMARY KEY, born bigint NOT NULL, data bytea NOT NULL);
ALTER TABLE {}bodies ALTER data SET STORAGE EXTERNAL;
`, `
ALTER TABLE {}threads ADD COLUMN phase smallint NOT NULL DEFAULT 0;
CREATE INDEX threads_phase ON {}threads (phase, id) WHERE NOT hidden;
`}

// migrate brings the schema to the present version. Many may ask at once: the first
// does it, in one transaction, and the others wait for it.
func (s *Store) migrate(ctx context.Context) error {
	version, err := s.version(ctx, s.pool)
	if err == nil && version == schemaVersion {
		return s.unlock(ctx, s.pool, false)
	}
	if err != nil && !undefined(err) {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('segno schema ' || $1::text, 0))`, s.options.Schema); err != nil {
			return err
		}
		// Another's tables came after the snapshot of a transaction that waited, but not
		// after that of its next statement.
		for _, query := range []string{`CREATE SCHEMA IF NOT EXISTS ` + s.schema, `CREATE TABLE IF NOT EXISTS {}meta (
			version integer NOT NULL, store text NOT NULL)`} {
			if _, err := tx.Exec(ctx, s.sql(query)); err != nil {
				return err
			}
		}
		version, err := s.version(ctx, tx)
		isNew := errors.Is(err, pgx.ErrNoRows)
		if isNew {
			version = 0
			s.id = segno.NewID()
			_, err = tx.Exec(ctx, s.sql(`INSERT INTO {}meta (version, store) VALUES (0, $1)`), s.id)
		}
		if err != nil {
			return err
		}
		if err := s.unlock(ctx, tx, isNew); err != nil {
			return err
		}
		for _, step := range migrations[version:] {
			if _, err := tx.Exec(ctx, s.sql(step), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("migrating from version %d: %w", version, err)
			}
		}
		_, err = tx.Exec(ctx, s.sql(`UPDATE {}meta SET version = $1`), s.marked(schemaVersion))
		return err
	})
}

// version reads the schema's version and the store's id.
func (s *Store) version(ctx context.Context, from interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}) (version int, err error) {
	err = from.QueryRow(ctx, s.sql(`SELECT version, store FROM {}meta`)).Scan(&version, &s.id)
	s.sealed = version&sealedVersion != 0
	version &^= sealedVersion
	if err == nil && version > schemaVersion {
		err = segno.Errorf(segno.KindNewer, "open store", s.name, "the store has version %d, this segno knows %d", version, schemaVersion).WithHint("use the newest segno you have")
	}
	return version, err
}

// undefined reports whether a schema or a table is not there.
func undefined(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000")
}
