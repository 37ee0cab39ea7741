package postgres

import (
	"context"
	"errors"

	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sealedVersion is set in the version of a sealed store, so that a segno that knows
// nothing of seals leaves it alone. Such a store has one more table, with its mark.
const sealedVersion = 1 << 16

// marked is a version as it is written down.
func (s *Store) marked(version int) int {
	if s.seal != nil {
		version |= sealedVersion
	}
	return version
}

// unlock finds out whether [Options.Key] is the store's, and marks a new one.
func (s *Store) unlock(ctx context.Context, from interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
}, isNew bool) error {
	var mark record.Mark
	if s.sealed {
		err := from.QueryRow(ctx, s.sql(`SELECT mark FROM {}seal`)).Scan((*[]byte)(&mark))
		if errors.Is(err, pgx.ErrNoRows) || undefined(err) {
			return corrupt("open store", s.name, errors.New("the mark of its key is missing"))
		}
		if err != nil {
			return err
		}
	}
	seal, made, err := record.Unlock(s.name, s.options.Key, mark, isNew)
	if err != nil || seal == nil {
		return err
	}
	s.seal = seal
	if mark != nil {
		return nil
	}
	if _, err := from.Exec(ctx, s.sql(`CREATE TABLE {}seal (mark bytea NOT NULL)`)); err != nil {
		return err
	}
	_, err = from.Exec(ctx, s.sql(`INSERT INTO {}seal (mark) VALUES ($1)`), []byte(made))
	return err
}
