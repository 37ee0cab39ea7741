package sqlite

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// Rename implements [segno.Renamer].
func (s *Store) Rename(ctx context.Context, thread segno.ThreadID, from, to string) error {
	const op = "rename thread"
	id := string(thread)
	err := s.write(ctx, op, id, func(tx *tx) error {
		var rec []byte
		if !tx.row(`SELECT record FROM threads WHERE id = ? AND hidden = 0`, []any{id}, &rec) {
			if tx.err != nil {
				return nil // write returns it
			}
			return notFound(op, id)
		}
		t, err := s.records.Thread(thread, rec)
		switch {
		case err != nil:
			return err
		case t.Title == to:
			return nil // a repeated call
		case t.Title != from:
			return segno.Errorf(segno.KindConflict, op, id, "its title is another one now")
		}
		t.Title = to
		tx.exec(`UPDATE threads SET record = ? WHERE id = ?`, s.records.Sealer.Seal(record.EncodeThread(&t), "thread", id), id)
		return nil
	})
	s.watch.Notify(thread)
	return err
}
