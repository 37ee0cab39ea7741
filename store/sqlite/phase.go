package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
)

// allPhases lists the numbers of [segno.Phase], so that SQLite finds a thread's row by the
// key of phases.
const allPhases = "(0, 1, 2, 3)"

// phaseTriggers are in databases that were of version 1. A process with an older segno may
// have such a database open, now or later in the same run, and does not know of phases: what
// it commits makes a thread's phase unknown. movePhase comes after them and records it.
const phaseTriggers = `
CREATE TRIGGER phases_create AFTER INSERT ON threads BEGIN
	INSERT INTO phases (phase, id, thread) VALUES (0, new.id, new.n); END;
CREATE TRIGGER phases_commit AFTER UPDATE OF seq ON threads BEGIN
	DELETE FROM phases WHERE phase IN ` + allPhases + ` AND id = new.id; INSERT INTO phases (phase, id, thread) VALUES (0, new.id, new.n); END;
CREATE TRIGGER phases_delete AFTER UPDATE OF hidden ON threads BEGIN
	DELETE FROM phases WHERE phase IN ` + allPhases + ` AND id = new.id; END;
`

// addPhases makes version 2 of version 1. The phases are not known until they are asked for.
func addPhases(ctx context.Context, c *conn) error {
	version, sealed, err := c.version(ctx)
	if err != nil || version != 1 {
		return err // another process was first
	}
	version = schemaVersion
	if sealed {
		version |= sealedVersion
	}
	_, err = c.sql.ExecContext(ctx, phasesSchema+phaseTriggers+fmt.Sprintf(`INSERT INTO phases (phase, id, thread) SELECT 0, id, n FROM threads WHERE NOT hidden;
		PRAGMA user_version=%d;`, version))
	return err
}

// movePhase records the phase of a thread after a commit. Most commits do not change it.
func (s *Store) movePhase(ctx context.Context, tx *conn, t *threadRow, c *segno.Commit) error {
	next := segno.NextPhase(t.phase, c)
	if s.hasTriggers {
		t.phase = segno.PhaseUnknown
	}
	if next == t.phase && c.Create == nil {
		return nil
	}
	return putPhase(ctx, tx, t.n, c.Thread, t.phase, next)
}

func putPhase(ctx context.Context, tx *conn, n int64, thread segno.ThreadID, before, after segno.Phase) error {
	if _, err := tx.exec(ctx, `DELETE FROM phases WHERE phase = ? AND id = ?`, before, string(thread)); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `INSERT OR REPLACE INTO phases (phase, id, thread) VALUES (?, ?, ?)`, after, string(thread), n)
	return err
}

// index finds threads by phase: [phase.Index].
type index struct{ s *Store }

func (x index) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, n int) (found []phase.Found, err error) {
	const columns = `SELECT t.id, t.record, t.seq, coalesce(h.id, ''), (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n, `
	const heads = ` LEFT JOIN commits h ON h.n = t.head `
	if !x.s.hasPhases {
		return x.read(ctx, segno.PhaseUnknown, columns+`1 FROM threads t`+heads+`WHERE NOT t.hidden AND t.id > ? ORDER BY t.id LIMIT ?`, []any{string(after), n})
	}
	for _, p := range []segno.Phase{segno.PhaseUnknown, p} {
		part, err := x.read(ctx, p, columns+`x.id = t.id AND NOT t.hidden FROM phases x JOIN threads t ON t.n = x.thread`+heads+
			`WHERE x.phase = ? AND x.id > ? ORDER BY x.id LIMIT ?`, []any{p, string(after), n})
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
	return found[:min(n, len(found))], nil
}

func (x index) read(ctx context.Context, p segno.Phase, query string, args []any) (found []phase.Found, err error) {
	const op = "list threads"
	err = x.s.read(ctx, op, "", func(calm context.Context, c *conn) error {
		return c.rows(calm, query, args, func(r *sql.Rows) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			f := phase.Found{Phase: p}
			var id segno.ThreadID
			var rec sql.RawBytes
			var isID, isThread *bool
			if err := r.Scan(&id, &rec, &f.Seq, &f.Head, &isID, &isThread); err != nil {
				return err
			}
			if isID == nil || !*isID || isThread == nil || !*isThread {
				return corrupt(op, string(id), errID)
			}
			var err error
			f.Thread, err = x.s.readThread(id, rec)
			found = append(found, f)
			return err
		})
	})
	return found, err
}

func (x index) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	if x.s.options.ReadOnly || !x.s.hasPhases {
		return nil
	}
	id := string(f.Thread.ID)
	return x.s.write(ctx, "list threads", id, func(ctx context.Context, tx *conn) error {
		var n int64
		found, err := tx.row(ctx, `SELECT n FROM threads WHERE id = ? AND seq = ? AND NOT hidden`, []any{id, f.Seq}, &n)
		if err != nil || !found {
			return err
		}
		return putPhase(ctx, tx, n, f.Thread.ID, segno.PhaseUnknown, p)
	})
}
