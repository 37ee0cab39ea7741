package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/store/sqlite/internal/checksumvfs"
)

// The versions of the schema, as recorded in the database's user_version. Open refuses newer ones.
const (
	phasesVersion = 2 // Open upgrades version 1 to it
	// schemaVersion is the version of a new database. It has the tables of phasesVersion, and its pages have
	// checksums. An existing database keeps its pages and phasesVersion.
	schemaVersion = 3
)

// sealedVersion is a bit in the user_version of a sealed store. It makes a segno that does not support seals
// refuse the store. A sealed store has one more table, with the mark of its key.
const sealedVersion = 1 << 16

const sealSchema = `CREATE TABLE seal (mark BLOB NOT NULL)`

// applicationID marks the database file as segno's: "sgno".
const applicationID = 0x73676e6f

// pageSize is the size of the pages of a new database; an existing database keeps its page size. A step of 2
// KB needs a row of about 1,100 bytes: three of them leave a quarter of a page of 4 KB empty. With small
// pages, this row is a few bytes on a leaf and one full overflow page. The worst case is a row of 500 to 900
// bytes, which occupies a separate page. A commit writes each page that it changes to the log, six or more,
// so small pages also make the log smaller.
const pageSize = checksumvfs.PageSize

// schema is the schema of version 1. Rows refer to each other by n, because ids have up to a kilobyte.
//
// commits contains every commit. A commit that is a node of the tree has a line and a depth, which is the
// number of its ancestors. A line is a sequence of nodes. Each is the only child on that line of the node
// before it. The number of a line is the n of its first node. The parent of that node is on another line. A
// line thus needs no row, and a query finds the ancestors of a node segment by segment: see line.go. high,
// head, tip, epoch and link are the commit's result, for a repeated commit.
//
// terms is the index of checkpoints by session, key and other values. A term is the first eight bytes of a
// hash; the store compares each hit with the query.
const schema = `
CREATE TABLE threads (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	hidden INTEGER NOT NULL,
	head INTEGER NOT NULL, tip INTEGER NOT NULL,
	seq INTEGER NOT NULL, turn INTEGER NOT NULL, epoch INTEGER NOT NULL,
	link INTEGER NOT NULL,
	changed INTEGER NOT NULL,
	workspace TEXT NOT NULL,
	owner TEXT NOT NULL, expires INTEGER NOT NULL,
	record BLOB NOT NULL
);
CREATE INDEX threads_workspace ON threads (workspace);

CREATE TABLE commits (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	thread INTEGER NOT NULL, seq INTEGER NOT NULL,
	parent INTEGER NOT NULL, line INTEGER, depth INTEGER, turn INTEGER NOT NULL,
	high INTEGER NOT NULL, head INTEGER NOT NULL, tip INTEGER NOT NULL,
	epoch INTEGER NOT NULL, link INTEGER NOT NULL,
	digest BLOB NOT NULL,
	checkpoint BLOB,
	entries BLOB
);
CREATE UNIQUE INDEX commits_seq ON commits (thread, seq);
CREATE UNIQUE INDEX commits_line ON commits (line, depth) WHERE line IS NOT NULL;

CREATE TABLE terms (term INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (term, n)) WITHOUT ROWID;
CREATE TABLE pins (n INTEGER PRIMARY KEY, name TEXT NOT NULL);

CREATE TABLE links (n INTEGER PRIMARY KEY, thread INTEGER NOT NULL, session TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX links_thread ON links (thread);
CREATE INDEX links_session ON links (session);

CREATE TABLE workspaces (
	id TEXT NOT NULL UNIQUE,
	path TEXT, device INTEGER, inode INTEGER,
	record BLOB,
	state BLOB
);
CREATE INDEX workspaces_path ON workspaces (path);
CREATE INDEX workspaces_inode ON workspaces (inode, device);

CREATE TABLE operations (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX operations_workspace ON operations (workspace);

CREATE TABLE packs (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, born INTEGER NOT NULL, objects INTEGER NOT NULL);
CREATE TABLE objects (
	name BLOB PRIMARY KEY,
	size INTEGER NOT NULL,
	born INTEGER NOT NULL,
	pack INTEGER NOT NULL,
	at INTEGER NOT NULL,
	length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE small (n INTEGER PRIMARY KEY, data BLOB NOT NULL);
`

// phasesSchema is added by phasesVersion. It stores the phase, a [segno.Phase], of the newest turn of each
// thread that is not deleted.
const phasesSchema = `
CREATE TABLE phases (phase INTEGER NOT NULL, id TEXT NOT NULL, thread INTEGER NOT NULL, PRIMARY KEY (phase, id)) WITHOUT ROWID;
`

// phaseTriggers are in databases that were upgraded from version 1. A process with an older segno may have
// such a database open, and it does not support phases: when it commits, the triggers make the phase of the
// thread unknown. A process of this version sets the phase after its commit has fired the triggers.
const phaseTriggers = `
CREATE TRIGGER phases_create AFTER INSERT ON threads BEGIN
	INSERT INTO phases (phase, id, thread) VALUES (0, new.id, new.n); END;
CREATE TRIGGER phases_commit AFTER UPDATE OF seq ON threads BEGIN
	DELETE FROM phases WHERE phase IN ` + allPhases + ` AND id = new.id;` +
	` INSERT INTO phases (phase, id, thread) VALUES (0, new.id, new.n); END;
CREATE TRIGGER phases_delete AFTER UPDATE OF hidden ON threads BEGIN
	DELETE FROM phases WHERE phase IN ` + allPhases + ` AND id = new.id; END;
`

// allPhases lists the numbers of [segno.Phase]. With it, SQLite finds the row of a thread by the key of
// phases.
const allPhases = "(0, 1, 2, 3)"

// schemaOf returns the schema of a version.
func schemaOf(version int) string {
	if version == 1 {
		return schema
	}
	return schema + phasesSchema
}

// version returns the schema's version, or 0 if there is none, and whether the store is sealed.
func (c *conn) version(ctx context.Context) (version int, isSealed bool, err error) {
	_, err = c.row(ctx, "PRAGMA user_version", nil, &version)
	return version &^ sealedVersion, version&sealedVersion != 0, err
}

// ensureSchema verifies or upgrades the schema, or creates it in an empty database.
func (s *Store) ensureSchema(ctx context.Context, c *conn) error {
	version, isSealed, err := c.version(ctx)
	if err == nil {
		err = checkSize(ctx, c, s.file)
	}
	switch {
	case err != nil:
		return err
	case version >= 1 && version <= schemaVersion:
		return s.openSchema(ctx, c, version, isSealed)
	case version > schemaVersion:
		return segno.Errorf(segno.KindNewer, "open store", s.dir, "the store has version %d, this segno knows %d", version, schemaVersion).
			WithHint("use the newest segno you have on this machine")
	case s.options.ReadOnly:
		return notFound("open store", s.dir)
	}
	return s.createSchema(ctx, c)
}

// openSchema verifies an existing schema, upgrades version 1, and verifies the key.
func (s *Store) openSchema(ctx context.Context, c *conn, version int, isSealed bool) error {
	s.hasSums = version >= schemaVersion
	if err := s.checkSums(ctx, c); err != nil {
		return err
	}
	if err := checkSchema(ctx, c, schemaOf(version)); err != nil {
		return err
	}
	if version == 1 && !s.options.ReadOnly {
		if err := c.transaction(ctx, addPhases); err != nil {
			return err
		}
		version = phasesVersion
	}
	s.hasPhases = version >= phasesVersion
	if _, err := c.row(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger')", nil, &s.hasTriggers); err != nil {
		return err
	}
	return s.unlock(ctx, c, isSealed, false)
}

// addPhases upgrades version 1 to version 2. All phases are unknown until a query needs them.
func addPhases(tx *tx) error {
	version, isSealed, err := tx.c.version(tx.ctx)
	if err != nil || version != 1 {
		return err // another process has already upgraded it
	}
	_, err = tx.c.sql.ExecContext(tx.ctx, phasesSchema+phaseTriggers+fmt.Sprintf(`INSERT INTO phases (phase, id, thread) SELECT 0, id, n
		FROM threads WHERE NOT hidden;
		PRAGMA user_version=%d;`, userVersion(phasesVersion, isSealed)))
	return err
}

// createSchema needs two transactions. The first one verifies that the database is empty before anything is
// written. Between them it sets the mode of the log, which is impossible in a transaction.
func (s *Store) createSchema(ctx context.Context, c *conn) error {
	// SQLite uses the page size from the first write on. The VFS sets it, too.
	if _, err := c.sql.ExecContext(ctx, fmt.Sprintf("PRAGMA page_size=%d", pageSize)); err != nil {
		return err
	}
	if err := c.transaction(ctx, func(tx *tx) error {
		_, err := s.isEmpty(tx.ctx, c)
		return err
	}); err != nil {
		return err
	}
	if _, err := c.sql.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	return c.transaction(ctx, func(tx *tx) error {
		ctx := tx.ctx
		isEmpty, err := s.isEmpty(ctx, c)
		if err != nil {
			return err
		}
		if !isEmpty {
			version, isSealed, err := c.version(ctx)
			return cmp.Or(err, s.openSchema(ctx, c, version, isSealed))
		}
		s.hasPhases = true
		if err := s.unlock(ctx, c, false, true); err != nil {
			return err
		}
		if _, err := c.row(ctx, checksumvfs.Pragma, nil, &s.hasSums); err != nil {
			return err
		}
		version := phasesVersion
		if s.hasSums {
			version = schemaVersion
		}
		_, err = c.sql.ExecContext(ctx, schemaOf(version)+fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d;",
			applicationID, userVersion(version, s.records.Sealer != nil)))
		return err
	})
}

// userVersion returns the user_version of a store.
func userVersion(version int, isSealed bool) int {
	if isSealed {
		return version | sealedVersion
	}
	return version
}

// isEmpty reports whether the schema may be created. It returns false if another process created it
// meanwhile, and an error for a database with other tables.
func (s *Store) isEmpty(ctx context.Context, c *conn) (bool, error) {
	var tables int
	version, _, err := c.version(ctx)
	if err != nil || version >= phasesVersion {
		return false, err
	}
	if _, err := c.row(ctx, "SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
		return false, err
	}
	if tables > 0 {
		return false, corrupt("open store", s.dir, errors.New(filepath.Base(s.file)+" is not a segno database"))
	}
	return true, s.checkOrphanedPacks()
}

// unlock verifies that [Options.Key] is the key of an existing store. For a new store it writes the mark of
// the key.
func (s *Store) unlock(ctx context.Context, c *conn, isSealed, isNew bool) error {
	var mark record.Mark
	if isSealed {
		found, err := c.row(ctx, `SELECT mark FROM seal`, nil, (*[]byte)(&mark))
		if err != nil && kindOf(err) != segno.KindInternal { // that kind means that the table does not exist
			return err
		}
		if !found {
			return corrupt("open store", s.dir, errors.New("the mark of its key is missing"))
		}
	}
	sealer, newMark, err := record.Unlock(s.dir, s.options.Key, mark, isNew)
	if err != nil {
		return err
	}
	s.records.Sealer = sealer
	if sealer == nil || !isNew {
		return nil
	}
	if _, err := c.sql.ExecContext(ctx, sealSchema); err != nil {
		return err
	}
	_, err = c.sql.ExecContext(ctx, `INSERT INTO seal (mark) VALUES (?)`, []byte(newMark))
	return err
}
