package database

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// checkFork returns an error if the copy of a PostgreSQL database cannot be made.
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

// forkPostgres creates the copy of a database with a saved content, and returns its name.
func (w *Attached) forkPostgres(ctx context.Context, at, copied Attachment, content segno.Hash) (name string, err error) {
	const op = "fork database"
	state, err := readPgState(ctx, w.recent, content)
	if err != nil || state == nil {
		return "", err
	}
	target, err := w.options.Postgres.Resolve(copied.URL)
	if err != nil {
		return "", segno.Errorf(segno.KindInvalid, op, at.Name, "the URL of the database is malformed")
	}
	name = target.name()
	source := postgresSession{pg: w.options.Postgres, at: at}
	defer source.close(ctx)
	if _, err = source.open(ctx, ""); err == nil {
		err = source.createLike(ctx, target.Database)
	}
	if err != nil {
		return name, segno.NewError(segno.KindIO, op, name, err)
	}
	s := postgresSession{pg: w.options.Postgres, at: copied}
	defer s.close(ctx)
	if _, err = s.open(ctx, `BEGIN`); err == nil {
		err = (&pgLoad{postgresSession: &s, objects: w.recent, state: state}).load(ctx)
	}
	if err == nil {
		_, err = s.conn.Exec(ctx, `COMMIT`)
	}
	if err != nil { // the database is empty
		s.close(ctx)
		_, _ = source.conn.Exec(context.WithoutCancel(ctx), `DROP DATABASE `+quoteName(target.Database))
		return name, segno.NewError(segno.KindIO, op, name, err)
	}
	return name, nil
}

// createLike creates an empty database with the encoding and the sort order of the present one.
func (s *postgresSession) createLike(ctx context.Context, name string) error {
	statement, err := s.value(ctx, fmt.Sprintf(`SELECT format('CREATE DATABASE %%I TEMPLATE template0 ENCODING %%L LC_COLLATE %%L LC_CTYPE %%L', %s,
		pg_encoding_to_char(encoding), datcollate, datctype) FROM pg_database WHERE datname = current_database()`, quoteLiteral(name)))
	if err == nil {
		_, err = s.conn.Exec(ctx, statement)
	}
	return err
}
