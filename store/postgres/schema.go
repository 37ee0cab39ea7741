package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaVersion is the version of the schema that this package writes. Open upgrades older versions and
// refuses newer ones.
const schemaVersion = 2

// migrations contains the step from each version to the next. "{}" stands for the schema's name and a dot.
//
// Ids are bytes, because text cannot contain NUL. Rows refer to each other by n, with one exception: a single
// read of a thread's row must return the whole head, so its head and tip are ids, and session is the record
// of the newest link.
//
// commits contains every commit. A commit that is a node of the tree has a line and a depth, which is the
// number of its ancestors. A line is a sequence of nodes of one thread. Each is the only child on that line
// of the node before it. The number of a line is the n of its first node. The parent of that node is on
// another line. A line thus needs no row, and a query finds the ancestors of a node segment by segment: see
// line.go. turn, high, epoch, link, head and tip are the commit's result, for a repeated commit. NULL stands
// for their usual values: high is turn, epoch is 0, head and tip are the commit itself.
//
// terms is the index of checkpoints by session, key and other values. A term is the first eight bytes of a
// hash; the store compares each hit with the query. whole is the hash of the parent thread. whole, session
// and workspace have sixteen bytes.
//
// phase is the phase of the thread's newest turn, a [segno.Phase]; 0 means unknown. It seldom changes, so its
// index seldom changes, too.
//
// The values are already compressed, so the server must not compress them again: EXTERNAL. A step of some
// kilobytes is one row without an overflow row: toast_tuple_target.
//
// Each commit updates the row of its thread. phase is the only indexed column that a commit can change. If it
// keeps its value and the page has room, PostgreSQL writes the new version of the row to the same page and adds
// no index entries (a HOT update). fillfactor reserves that room, so most updates are HOT.
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

// sealedVersion is a bit in the version of a sealed store. It makes a segno that does not support seals
// refuse the store. A sealed store has one more table, with the mark of its key.
const sealedVersion = 1 << 16

// migrate upgrades the schema to the current version. If several processes migrate, the first one does it in
// one transaction, and the others wait for it.
func (s *Store) migrate(ctx context.Context) error {
	version, err := s.version(ctx, s.pool)
	if err == nil && version == schemaVersion {
		return s.unlock(ctx, s.pool, false)
	}
	if err != nil && !isUndefined(err) {
		return err
	}
	if err != nil && s.options.MustExist {
		return segno.Errorf(segno.KindNotFound, "open store", s.name, "the database has no store").
			WithHint("check the name of the database")
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('segno schema ' || $1::text, 0))`,
			s.options.Schema); err != nil {
			return err
		}
		// While this transaction waited, another process may have created the tables. The next statements
		// then find them.
		if err := s.execAll(ctx, tx, []change{{`CREATE SCHEMA IF NOT EXISTS ` + s.schema, nil},
			{`CREATE TABLE IF NOT EXISTS {}meta (version integer NOT NULL, store text NOT NULL)`, nil}}); err != nil {
			return err
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
		version = schemaVersion
		if s.records.Sealer != nil {
			version |= sealedVersion
		}
		_, err = tx.Exec(ctx, s.sql(`UPDATE {}meta SET version = $1`), version)
		return err
	})
}

// executor is a pool or a transaction.
type executor interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
}

// version reads the schema's version and the store's id.
func (s *Store) version(ctx context.Context, on executor) (version int, err error) {
	err = on.QueryRow(ctx, s.sql(`SELECT version, store FROM {}meta`)).Scan(&version, &s.id)
	s.isSealed = version&sealedVersion != 0
	version &^= sealedVersion
	if err == nil && version > schemaVersion {
		err = segno.Errorf(segno.KindNewer, "open store", s.name, "the store has version %d, this segno knows %d", version, schemaVersion).
			WithHint("use the newest segno you have")
	}
	return version, err
}

// isUndefined reports whether a schema or a table does not exist.
func isUndefined(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000")
}

// unlock verifies that [Options.Key] is the key of the store, and writes the mark of the key to a new store.
func (s *Store) unlock(ctx context.Context, on executor, isNew bool) error {
	var mark record.Mark
	if s.isSealed {
		err := on.QueryRow(ctx, s.sql(`SELECT mark FROM {}seal`)).Scan((*[]byte)(&mark))
		if errors.Is(err, pgx.ErrNoRows) || err != nil && isUndefined(err) {
			err = s.records.Corrupt("open store", s.name, errors.New("the mark of its key is missing"))
		}
		if err != nil {
			return err
		}
	}
	sealer, newMark, err := record.Unlock(s.name, s.options.Key, mark, isNew)
	if err != nil || sealer == nil {
		return err
	}
	s.records.Sealer = sealer
	if mark != nil {
		return nil
	}
	if _, err := on.Exec(ctx, s.sql(`CREATE TABLE {}seal (mark bytea NOT NULL)`)); err != nil {
		return err
	}
	_, err = on.Exec(ctx, s.sql(`INSERT INTO {}seal (mark) VALUES ($1)`), []byte(newMark))
	return err
}
