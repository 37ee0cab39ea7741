package sqlite

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
	"github.com/dalsegno/segno/internal/sqlstore"
)

// firstPage is how many checkpoints a query without a limit reads first. Many callers stop at one of the
// newest.
const firstPage = 4

// Checkpoints implements [segno.Store].
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	newest := int64(0) // of the numbers that verifySeqs has not verified
	return sqlstore.Pages(&q, firstPage, func(before int64, count int) ([]segno.Checkpoint, int64, error) {
		found, next, err := s.checkpointPage(ctx, &q, before, count)
		if err == nil && q.Thread != "" && len(found) > 0 {
			newest, err = s.verifySeqs(ctx, q.Thread, found, newest, next == 0)
		}
		return found, next, err
	})
}

// verifySeqs looks for gaps in the numbers of a thread's commits: from the oldest of a page to newest, the
// oldest of the page before it, and at the end of the list from the thread's first. Numbers are never freed.
// verifySeqs returns the oldest number of the page.
func (s *Store) verifySeqs(ctx context.Context, thread segno.ThreadID, page []segno.Checkpoint, newest int64,
	isLast bool) (oldest int64, err error) {
	const op = "list checkpoints"
	oldest = page[len(page)-1].Seq
	if isLast {
		oldest = 1
	}
	newest = max(page[0].Seq, newest)
	var n int64
	err = s.read(ctx, op, string(thread), func(ctx context.Context, c *conn) error {
		_, err := c.row(ctx, `SELECT count(*) FROM commits INDEXED BY commits_seq
			WHERE thread = (SELECT n FROM threads WHERE id = ?) AND seq BETWEEN ? AND ?`, []any{string(thread), oldest, newest}, &n)
		return err
	})
	if err == nil && n != newest-oldest+1 {
		err = corrupt(op, string(thread), fmt.Errorf("of the commits %d to %d there are %d", oldest, newest, n))
	}
	return oldest, err
}

// checkpointPage returns up to count checkpoints before a position, and the position to continue from.
func (s *Store) checkpointPage(ctx context.Context, q *segno.CheckpointQuery, before int64, count int) (found []segno.Checkpoint,
	next int64, err error) {
	const op = "list checkpoints"
	query, args := s.checkpointQuery(q, before, count)
	rows := 0
	err = s.read(ctx, op, string(q.Thread), func(queryCtx context.Context, c *conn) error {
		var listed []segno.Node
		err := c.Query(queryCtx, query, args, func(r sqlstore.Row) error {
			var row sqlstore.CheckpointRow
			var l leaseRow
			if err := row.Scan(r, &l.hidden, &l.owner, &l.expires, &l.epoch); err != nil {
				return err
			}
			rows, next = rows+1, row.Position
			if l.hidden {
				l.thread = row.Node.Thread
				return l.verify(op, s.records.Sealer != nil)
			}
			listed = append(listed, row.Node)
			cp, err := s.records.QueriedCheckpoint(&row, q)
			if err == nil && q.Matches(cp) {
				found = append(found, *cp)
			}
			if err == nil {
				err = ctx.Err()
			}
			return err
		})
		if err != nil {
			return err
		}
		return verifyParents(queryCtx, c, listed)
	})
	if err == nil && rows == 0 && q.Thread != "" {
		if _, err = s.Head(ctx, q.Thread); segno.KindOf(err) == segno.KindNotFound {
			err = nil
		}
	}
	if rows < count {
		next = 0
	}
	return found, next, err
}

// checkpointQuery returns the query for a page. It starts with the rarest condition; the CROSS JOINs keep
// SQLite from starting with another.
func (s *Store) checkpointQuery(q *segno.CheckpointQuery, before int64, count int) (string, []any) {
	var where sqlstore.Where
	from, position, order := "commits c", "c.n", "c.n"
	terms := s.records.Sealer.Asked(q)
	switch {
	case len(terms) > 0:
		from, position, order = "terms x CROSS JOIN commits c ON c.n = x.n", "x.n", "x.n"
	case q.Pinned:
		from, position = "pins x CROSS JOIN commits c ON c.n = x.n", "x.n"
	case q.IDPrefix == "" && q.Thread != "":
		from, order = "threads o CROSS JOIN commits c INDEXED BY commits_seq ON c.thread = o.n", "c.seq"
		where.And("o.id = %s", string(q.Thread))
	}
	where.CheckpointConditions(database{s}, q, terms, position, before)
	limit := where.Arg(count)
	return fmt.Sprintf(`SELECT c.n, c.id, c.seq, coalesce(t.id, ''), coalesce(p.id, ''), c.checkpoint, coalesce(pin.name, ''),
			CASE WHEN t.hidden THEN NULL
				WHEN ((SELECT x.n FROM commits x WHERE x.id = c.id) = c.n AND (SELECT y.n FROM threads y
					WHERE y.id = t.id) = t.n) IS NOT 1 THEN '%s'
				WHEN (CASE WHEN c.parent = 0 THEN c.depth = 0 ELSE c.depth = p.depth + 1
					AND (c.line = p.line OR c.line = c.n) END) IS NOT 1 THEN '%s' END,
			coalesce(t.hidden, 0), CASE WHEN t.hidden THEN t.owner END, coalesce(t.expires, 0), coalesce(t.epoch, 0)
		FROM %s LEFT JOIN threads t ON t.n = c.thread
			LEFT JOIN commits p ON p.n = c.parent LEFT JOIN pins pin ON pin.n = c.n
		WHERE %s ORDER BY %s DESC LIMIT %s`, sqlstore.ErrID, errPlace, from, where.String(), order, limit), where.Args
}

// Threads implements [segno.Store].
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	if err := phase.Check(&q); err != nil {
		return func(yield func(segno.Thread, error) bool) { yield(segno.Thread{}, err) }
	}
	if q.Phase != segno.PhaseUnknown {
		return phase.Threads(ctx, s, phaseIndex{s}, q)
	}
	return sqlstore.Yield(func() ([]segno.Thread, error) {
		if err := s.verifyDeleted(ctx); err != nil {
			return nil, err
		}
		query, args := s.threadQuery(&q)
		all, err := sqlstore.List(ctx, database{s}, "list threads", "", query, args, s.scanThread)
		if err != nil {
			return nil, err
		}
		var found []segno.Thread
		for i := range all {
			if q.Matches(&all[i]) && (q.Limit == 0 || len(found) < q.Limit) {
				found = append(found, all[i])
			}
		}
		if len(found) == 0 && q.Session != "" {
			err = s.missedSession(ctx, q.Session)
		}
		return found, err
	})
}

// scanThread scans a row of threadQuery and verifies it.
func (s *Store) scanThread(r sqlstore.Row) (segno.Thread, error) {
	const op = "list threads"
	var rec []byte
	var isSound *bool
	var l leaseRow
	if err := r.Scan(&l.thread, &rec, &l.owner, &l.expires, &l.epoch, &isSound); err != nil {
		return segno.Thread{}, err
	}
	if isSound == nil || !*isSound {
		return segno.Thread{}, corrupt(op, string(l.thread), sqlstore.ErrID)
	}
	if err := l.verify(op, s.records.Sealer != nil); err != nil {
		return segno.Thread{}, err
	}
	return s.records.Thread(l.thread, rec)
}

// parentField is the field of the term that the first commit of a child thread has.
const parentField = "of"

// threadQuery finds at least the threads of q; the caller compares their records with q. It finds child
// threads by the term of their first commit. It lists the threads that are not deleted, and the damaged rows
// that only seem to be deleted.
func (s *Store) threadQuery(q *segno.ThreadQuery) (string, []any) {
	var where sqlstore.Where
	from := "threads t"
	if q.ParentThread != "" {
		from = "terms x CROSS JOIN commits c ON c.n = x.n CROSS JOIN threads t ON t.n = c.thread"
		where.And("x.term = %s", s.records.Sealer.Term(parentField, string(q.ParentThread)))
	}
	where.And("(t.hidden IS NOT 1 OR (SELECT z.n FROM threads z WHERE z.id = t.id) IS NOT t.n)")
	if q.Workspace != "" {
		where.And("t.workspace = %s", string(q.Workspace))
	}
	if q.Session != "" {
		where.And("t.n IN (SELECT thread FROM links WHERE session = %s)", s.records.Sealer.Name("session", string(q.Session)))
	}
	where.Prefix(database{s}, "t.id", q.IDPrefix)
	query := `SELECT t.id, t.record, t.owner, t.expires, t.epoch, (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n AND t.hidden = 0
			AND t.changed = (SELECT m.n FROM commits m WHERE m.thread = t.n AND m.seq = t.seq)
		FROM ` + from + ` WHERE ` + where.String() + ` ORDER BY t.changed DESC`
	if q.Limit > 0 && !q.TopLevel && q.ParentThread == "" {
		query += " LIMIT " + where.Arg(q.Limit)
	}
	return query, where.Args
}

// phaseIndex implements [phase.Index].
type phaseIndex struct{ s *Store }

func (x phaseIndex) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, count int) ([]phase.Found, error) {
	const columns = `SELECT t.id, t.record, coalesce(h.id, ''), t.seq, (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n`
	const heads = ` LEFT JOIN commits h ON h.n = t.head `
	phases := []segno.Phase{segno.PhaseUnknown, p}
	if !x.s.hasPhases {
		phases = phases[:1]
	}
	return x.s.records.InPhase(ctx, database{x.s}, phases, count, func(p segno.Phase) (string, []any) {
		if !x.s.hasPhases {
			return columns + ` FROM threads t` + heads + `WHERE NOT t.hidden AND t.id > ? ORDER BY t.id LIMIT ?`, []any{string(after),
				count}
		}
		return columns + ` AND x.id = t.id AND NOT t.hidden FROM phases x JOIN threads t ON t.n = x.thread` + heads +
			`WHERE x.phase = ? AND x.id > ? ORDER BY x.id LIMIT ?`, []any{p, string(after), count}
	})
}

// Remember implements [phase.Index].
func (x phaseIndex) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
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
		return changePhase(ctx, tx, n, f.Thread.ID, segno.PhaseUnknown, p)
	})
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	return sqlstore.Yield(func() ([]segno.Link, error) {
		head, err := s.Head(ctx, thread)
		if err != nil {
			return nil, err
		}
		return s.records.Chain(ctx, database{s}, head, `SELECT l.record, l.n FROM links l
			WHERE l.thread = (SELECT n FROM threads WHERE id = ? AND NOT hidden) ORDER BY l.n`)
	})
}

func (s *Store) sealLink(thread segno.ThreadID, n int64, rec []byte) []byte {
	return s.records.Sealer.Seal(rec, "link", string(thread), strconv.FormatInt(n, 10))
}

// decodeLink decodes the record of the link with number n.
func (s *Store) decodeLink(thread segno.ThreadID, n int64, rec []byte) (segno.Link, error) {
	if rec == nil {
		rec = []byte{} // a link that is missing is damage
	}
	return s.records.Link(thread, rec, "link", string(thread), strconv.FormatInt(n, 10))
}

// findWorkspaces is the query of [sqlstore.WorkspaceQueries].
func findWorkspaces(paths [][]byte, device, inode int64) (string, []any) {
	var args []any
	var where []string
	if len(paths) > 0 {
		where = append(where, `path IN (`+strings.TrimSuffix(strings.Repeat("?,", len(paths)), ",")+`)`)
		for _, p := range paths {
			args = append(args, p)
		}
	}
	if inode != 0 {
		where = append(where, `inode = ? AND device = ?`)
		args = append(args, inode, device)
	}
	if where == nil {
		where = []string{"1"}
	}
	return `SELECT id, record, state, (SELECT x.rowid FROM workspaces x WHERE x.id = w.id) IS w.rowid FROM workspaces w
		WHERE record IS NOT NULL AND (` + strings.Join(where, " OR ") + `) ORDER BY length(path) DESC, id`, args
}
