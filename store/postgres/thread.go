package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	var h headRow
	err := sqlstore.ReadRow(ctx, database{s}, "read head", string(thread), `SELECT head, tip, seq, turn, epoch, session FROM {}threads
		WHERE id = $1 AND NOT hidden`, []any{[]byte(thread)}, &h.head, &h.tip, &h.seq, &h.turn, &h.epoch, &h.link)
	if err != nil {
		return segno.Head{}, err
	}
	return s.decodeHead(thread, &h)
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	wasLost := false // the answer to an execution was lost
	err := s.call(ctx, op, string(thread), func(ctx context.Context) error {
		tag, err := s.db.Exec(s.writeContext(ctx), s.sql(`UPDATE {}threads SET hidden = true WHERE id = $1 AND NOT hidden`), []byte(thread))
		wasLost = wasLost || err != nil && !isNotExecuted(err)
		if err == nil && tag.RowsAffected() == 0 && !wasLost {
			err = notFound(op, string(thread))
		}
		return err
	})
	s.watch.Notify(thread)
	return err
}

// Lease implements [sqlstore.Database]. The time comes from Options.Clock, or else from the server.
func (d database) Lease(ctx context.Context, op string, thread segno.ThreadID) (l sqlstore.LeaseRow, now time.Time, err error) {
	l.Thread = thread
	var exists bool
	var clock int64
	err = sqlstore.ReadRow(ctx, d, op, string(thread), `SELECT coalesce(t.hidden, false), t.owner,
			coalesce(t.expires, 0), coalesce(t.epoch, 0), t.n IS NOT NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
		FROM (SELECT) one LEFT JOIN {}threads t ON t.id = $1 AND NOT t.hidden`, []any{[]byte(thread)}, append(l.Dest(), &exists, &clock)...)
	if err == nil && !exists {
		err = notFound(op, string(thread))
	}
	if d.options.Clock != nil {
		return l, d.options.Clock(), err
	}
	return l, time.Unix(0, clock), err
}

func (database) LeaseOwner(l *sqlstore.LeaseRow) any { return l.Owner }

func (database) VerifyLease(string, *sqlstore.LeaseRow) error { return nil }

// Rename implements [segno.Renamer]. A repeated execution finds the new title and changes nothing.
func (s *Store) Rename(ctx context.Context, thread segno.ThreadID, from, to string) error {
	const op = "rename thread"
	id := string(thread)
	err := s.call(ctx, op, id, func(ctx context.Context) error {
		var rec []byte
		err := s.db.QueryRow(ctx, s.sql(`SELECT record FROM {}threads WHERE id = $1 AND NOT hidden`), []byte(id)).Scan(&rec)
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound(op, id)
		}
		if err != nil {
			return err
		}
		next, err := s.records.Renamed(thread, rec, from, to)
		if err != nil || next == nil {
			return err
		}
		tag, err := s.db.Exec(s.writeContext(ctx), s.sql(`UPDATE {}threads SET record = $3 WHERE id = $1 AND record = $2 AND NOT hidden`),
			[]byte(id), rec, next)
		if err == nil && tag.RowsAffected() == 0 {
			err = errRetry // another process renamed or deleted it meanwhile
		}
		return err
	})
	s.watch.Notify(thread)
	return err
}
