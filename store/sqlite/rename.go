package sqlite

import (
	"context"

	"github.com/dalsegno/segno"
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
		next, err := s.records.Renamed(thread, rec, from, to)
		if err == nil && next != nil {
			tx.exec(`UPDATE threads SET record = ? WHERE id = ?`, next, id)
		}
		return err
	})
	s.watch.Notify(thread)
	return err
}
