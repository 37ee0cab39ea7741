package sqlite

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// sealSchema is the part of the schema that only sealed stores have.
const sealSchema = `CREATE TABLE seal (mark BLOB NOT NULL)`

// sealedVersion is set in the user_version of a sealed store, so that a segno that knows
// nothing of seals leaves it alone. Such a store has one more table, with its mark.
const sealedVersion = 1 << 16

// version is the schema's version, 0 if there is none, and whether the store is sealed.
func (c *conn) version(ctx context.Context) (version int, sealed bool, err error) {
	_, err = c.row(ctx, "PRAGMA user_version", nil, &version)
	return version &^ sealedVersion, version&sealedVersion != 0, err
}

// unlock finds out whether [Options.Key] is the key of a store that is there.
func (s *Store) unlock(ctx context.Context, c *conn, sealed bool) (err error) {
	var mark record.Mark
	if sealed {
		found, err := c.row(ctx, `SELECT mark FROM seal`, nil, (*[]byte)(&mark))
		if err != nil && kindOf(err) != segno.KindInternal { // not that there is no such table
			return err
		}
		if !found {
			return corrupt("open store", s.dir, errors.New("the mark of its key is missing"))
		}
	}
	s.seal, _, err = record.Unlock(s.dir, s.options.Key, mark, false)
	return err
}

// mark marks a store that is being made, and returns its version.
func (s *Store) mark(ctx context.Context, c *conn) (version int, err error) {
	seal, mark, err := record.Unlock(s.dir, s.options.Key, nil, true)
	if err != nil || seal == nil {
		return schemaVersion, err
	}
	if _, err := c.sql.ExecContext(ctx, sealSchema); err != nil {
		return 0, err
	}
	if _, err := c.sql.ExecContext(ctx, `INSERT INTO seal (mark) VALUES (?)`, []byte(mark)); err != nil {
		return 0, err
	}
	s.seal = seal
	return schemaVersion | sealedVersion, nil
}

// named is what an object is called in the database and in packs.
func (s *Store) named(h segno.Hash) segno.Hash { return s.seal.Hash("object", h) }

// text is a short text as a column keeps it.
func (s *Store) text(value string, place ...string) any {
	if s.seal == nil {
		return value
	}
	return s.seal.Seal([]byte(value), place...)
}
