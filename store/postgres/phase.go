package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
	"github.com/jackc/pgx/v5"
)

// phases are the phases of the commit's thread after it, for each phase before it.
func (w *written) phases() (next [4]int16) {
	for before := range next {
		next[before] = int16(segno.NextPhase(segno.Phase(before), &w.Commit))
	}
	return next
}

// index finds threads by phase: [phase.Index].
type index struct{ s *Store }

func (x index) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, n int) (found []phase.Found, err error) {
	for _, p := range []segno.Phase{segno.PhaseUnknown, p} {
		part, err := x.read(ctx, p, after, n)
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
	return found[:min(n, len(found))], nil
}

func (x index) read(ctx context.Context, p segno.Phase, after segno.ThreadID, n int) (found []phase.Found, err error) {
	err = x.s.rows(ctx, "list threads", "", `SELECT id, record, head, seq FROM {}threads WHERE phase = $1 AND id > $2 AND NOT hidden ORDER BY id LIMIT $3`,
		[]any{int16(p), []byte(after), n}, func() { found = nil }, func(r pgx.Rows) error {
			f := phase.Found{Phase: p}
			var id, rec, head []byte
			if err := r.Scan(&id, &rec, &head, &f.Seq); err != nil {
				return err
			}
			var err error
			f.Head = segno.CommitID(head)
			f.Thread, err = x.s.readThread(id, rec)
			found = append(found, f)
			return err
		})
	return found, err
}

func (x index) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	_, err := x.s.change(ctx, "list threads", string(f.Thread.ID), `UPDATE {}threads SET phase = $1 WHERE id = $2 AND seq = $3`,
		int16(p), []byte(f.Thread.ID), f.Seq)
	if segno.KindOf(err) == segno.KindRefused {
		return nil // a standby cannot be written
	}
	return err
}
