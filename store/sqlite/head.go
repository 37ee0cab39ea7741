package sqlite

import (
	"cmp"
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// headQuery reads a head together with the values with which it is compared, because another process may
// commit between two queries.
const headQuery = `SELECT t.hidden, t.seq, t.turn, t.epoch, t.link, coalesce(h.id, ''), coalesce(p.id, ''), l.record, t.owner, t.expires,
		t.seq = 0 OR m.head = t.head AND m.tip = t.tip AND m.high = t.turn AND m.link = t.link
			AND NOT EXISTS (SELECT 1 FROM commits y WHERE y.thread = t.n AND y.seq > t.seq),
		(SELECT z.id FROM threads z NOT INDEXED WHERE z.n = t.n) = ?1
			AND (t.head = 0 OR (SELECT x.n FROM commits x WHERE x.id = h.id) = t.head) AND (t.tip = 0 OR (SELECT x.n FROM commits x
				WHERE x.id = p.id) = t.tip)
	FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip LEFT JOIN links l ON l.n = t.link
		LEFT JOIN commits m ON m.thread = t.n AND m.seq = t.seq
	WHERE t.id = ?1`

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (h segno.Head, err error) {
	const op = "read head"
	id := string(thread)
	err = s.read(ctx, op, id, func(ctx context.Context, c *conn) error {
		var isNewest, isID *bool
		var link int64
		var rec []byte
		l := sqlstore.LeaseRow{Thread: thread}
		h = segno.Head{Thread: thread}
		found, err := c.row(ctx, headQuery, []any{id},
			&l.Hidden, &h.Seq, &h.Turn, &h.Epoch, &link, &h.Head, &h.Tip, &rec, &l.Owner, &l.Expires, &isNewest, &isID)
		l.Epoch = h.Epoch
		switch {
		case err == nil && !found:
			err = cmp.Or(missedRow(ctx, c, op, "threads", id), notFound(op, id))
		case err != nil:
		case isNewest == nil || !*isNewest:
			err = corrupt(op, id, errHead)
		case isID == nil || !*isID:
			err = corrupt(op, id, sqlstore.ErrID)
		default:
			err = database{s}.VerifyLease(op, &l)
		}
		if err == nil && link != 0 {
			h.Link, err = s.decodeLink(thread, link, rec)
		}
		if err == nil && l.Hidden {
			err = notFound(op, id)
		}
		return err
	})
	if err != nil {
		return segno.Head{}, err
	}
	return h, nil
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	err := s.write(ctx, op, string(thread), func(tx *tx) error {
		l, err := s.readLease(tx.ctx, tx.c, op, thread)
		l.Hidden = true
		if err == nil {
			tx.exec(`UPDATE threads SET hidden = 1, owner = ? WHERE id = ?`, database{s}.LeaseOwner(&l), string(thread))
			tx.exec(`DELETE FROM phases WHERE phase IN `+allPhases+` AND id = ?`, string(thread))
		}
		return err
	})
	s.watch.Notify(thread)
	return err
}
