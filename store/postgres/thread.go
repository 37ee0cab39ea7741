package postgres

import (
	"context"

	"github.com/dalsegno/segno"
)

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	const op = "read head"
	st := standing{seal: s.seal}
	err := s.row(ctx, op, string(thread), `SELECT head, tip, seq, turn, epoch, session FROM {}threads WHERE id = $1 AND NOT hidden`,
		[]any{[]byte(thread)}, &st.head, &st.tip, &st.seq, &st.turn, &st.epoch, &st.link)
	if err != nil {
		return segno.Head{}, err
	}
	return st.read(thread)
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	deleted, err := s.change(ctx, op, string(thread), `UPDATE {}threads SET hidden = true WHERE id = $1 AND NOT hidden`, []byte(thread))
	if err == nil && !deleted {
		err = notFound(op, string(thread))
	}
	s.watch.notifier.Notify(thread)
	return err
}
