package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
)

// page is how many checkpoints are read at a time, firstPage how many at first of a list
// without a limit: many callers stop at one of the newest. Nothing is held between pages,
// so that whoever lists may call the store, and take their time.
const (
	page      = 128
	firstPage = 4
)

// Checkpoints implements [segno.Store].
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	return func(yield func(segno.Checkpoint, error) bool) {
		const op = "list checkpoints"
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			yield(segno.Checkpoint{}, segno.Errorf(segno.KindInvalid, op, "", "before needs a thread, and neither it nor limit is negative"))
			return
		}
		before, seq := int64(math.MaxInt64), int64(0)
		for left, want := q.Limit, firstPage; ; want = min(page, 4*want) {
			if q.Limit > 0 {
				want = min(page, left)
			}
			found, last, err := s.checkpointPage(ctx, q, before, want)
			if err == nil && q.Thread != "" && len(found) > 0 {
				seq, err = s.checkSeqs(ctx, q.Thread, found, seq, last == 0)
			}
			if err != nil {
				yield(segno.Checkpoint{}, err)
				return
			}
			for _, c := range found {
				if !yield(*c, nil) {
					return
				}
			}
			left -= len(found)
			if last == 0 || q.Limit > 0 && left == 0 {
				return
			}
			before = last
		}
	}
}

// checkSeqs looks for gaps in the numbers of a thread's commits, from the oldest of a page to
// the oldest of the page before it, and at the end of the list from the thread's first: no
// commit's number is ever taken away. It returns the oldest of the page.
func (s *Store) checkSeqs(ctx context.Context, thread segno.ThreadID, page []*segno.Checkpoint, above int64, isLast bool) (lowest int64, err error) {
	lowest = page[len(page)-1].Seq
	if isLast {
		lowest = 1
	}
	highest := max(page[0].Seq, above)
	var n int64
	err = s.read(ctx, "list checkpoints", string(thread), func(ctx context.Context, c *conn) error {
		_, err := c.row(ctx, `SELECT count(*) FROM commits INDEXED BY commits_seq
			WHERE thread = (SELECT n FROM threads WHERE id = ?) AND seq BETWEEN ? AND ?`, []any{string(thread), lowest, highest}, &n)
		return err
	})
	if err == nil && n != highest-lowest+1 {
		err = corrupt("list checkpoints", string(thread), fmt.Errorf("of the commits %d to %d there are %d", lowest, highest, n))
	}
	return lowest, err
}

// checkpointPage returns up to want checkpoints whose n is lower than before, and
// the n to go on from, 0 at the end.
func (s *Store) checkpointPage(ctx context.Context, q segno.CheckpointQuery, before int64, want int) (found []*segno.Checkpoint, last int64, err error) {
	query, args := s.checkpointQuery(q, before, want)
	rows := 0
	var listed []segno.Node
	err = s.read(ctx, "list checkpoints", string(q.Thread), func(calm context.Context, c *conn) error {
		err := c.rows(calm, query, args, func(r *sql.Rows) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			rows++
			var at segno.Node
			var packed sql.RawBytes
			var pin []byte
			var isID, follows *bool
			var l leaseRow
			if err := r.Scan(&last, &at.ID, &at.Seq, &at.Thread, &at.Parent, &packed, &pin, &isID, &follows, &l.hidden, &l.owner, &l.expires, &l.epoch); err != nil {
				return err
			}
			if l.hidden {
				l.thread = at.Thread
				return l.check("list checkpoints", s.seal != nil)
			}
			if isID == nil || !*isID {
				return corrupt("list checkpoints", string(at.ID), errID)
			}
			if follows == nil || !*follows {
				return corrupt("list checkpoints", string(at.ID), errPlace)
			}
			listed = append(listed, at)
			c, err := s.readCheckpoint(packed, at)
			if err != nil {
				return corrupt("read checkpoint", string(at.ID), err)
			}
			if q.Pinned {
				if pin, err = s.seal.Open(pin, "pin", string(at.ID)); err != nil {
					return corrupt("read pin", string(at.ID), err)
				}
				c.Label = string(pin)
			}
			if q.Matches(c) {
				found = append(found, c)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return checkParents(calm, c, listed)
	})
	if err == nil && rows == 0 && q.Thread != "" {
		if _, err = s.head(ctx, q.Thread, s.read); segno.KindOf(err) == segno.KindNotFound {
			err = nil
		}
	}
	if rows < want {
		last = 0
	}
	return found, last, err
}

// checkpointQuery drives the query by its rarest condition. The CROSS JOINs keep
// SQLite from choosing another.
func (s *Store) checkpointQuery(q segno.CheckpointQuery, before int64, want int) (string, []any) {
	var from, where strings.Builder
	var args []any
	terms := s.seal.Asked(&q)
	order := "c.n"
	switch {
	case len(terms) > 0:
		from.WriteString("terms x CROSS JOIN commits c ON c.n = x.n")
		where.WriteString("x.term = ? AND x.n < ?")
		args, order = append(args, terms[0], before), "x.n"
		for _, t := range terms[1:] {
			where.WriteString(" AND EXISTS (SELECT 1 FROM terms y WHERE y.term = ? AND y.n = c.n)")
			args = append(args, t)
		}
	case q.Pinned:
		from.WriteString("pins x CROSS JOIN commits c ON c.n = x.n")
		where.WriteString("x.n < ?")
		args = append(args, before)
	case q.IDPrefix == "" && q.Thread != "":
		from.WriteString("threads o CROSS JOIN commits c INDEXED BY commits_seq ON c.thread = o.n")
		where.WriteString("o.id = ? AND c.n < ?")
		args, order = append(args, string(q.Thread), before), "c.seq"
	default:
		from.WriteString("commits c")
		where.WriteString("c.n < ?")
		args = append(args, before)
	}
	and := func(cond string, values ...any) {
		where.WriteString(" AND " + cond)
		args = append(args, values...)
	}
	and("c.checkpoint IS NOT NULL")
	if q.Thread != "" {
		and("t.id = ?", string(q.Thread))
	}
	if q.IDPrefix != "" {
		and("c.id >= ? AND c.id < ?", q.IDPrefix, q.IDPrefix+"\xff")
	}
	if q.Before != 0 {
		and("c.seq < ?", q.Before)
	}
	if q.Pinned {
		and("pin.name IS NOT NULL")
	}
	return `SELECT c.n, c.id, c.seq, coalesce(t.id, ''), coalesce(p.id, ''), c.checkpoint, coalesce(pin.name, ''),
			(SELECT x.n FROM commits x WHERE x.id = c.id) = c.n AND (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n,
			CASE WHEN c.parent = 0 THEN c.depth = 0 ELSE c.depth = p.depth + 1 AND (c.line = p.line OR c.line = c.n) END,
			coalesce(t.hidden, 0), CASE WHEN t.hidden THEN t.owner END, coalesce(t.expires, 0), coalesce(t.epoch, 0)
		FROM ` + from.String() + ` LEFT JOIN threads t ON t.n = c.thread
			LEFT JOIN commits p ON p.n = c.parent LEFT JOIN pins pin ON pin.n = c.n
		WHERE ` + where.String() + ` ORDER BY ` + order + ` DESC LIMIT ?`, append(args, want)
}

// Threads implements [segno.Store].
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	if err := phase.Check(&q); err != nil {
		return func(yield func(segno.Thread, error) bool) { yield(segno.Thread{}, err) }
	}
	if q.Phase != segno.PhaseUnknown {
		return phase.Threads(ctx, s, index{s}, q)
	}
	query, args := s.threadQuery(q)
	all := list(ctx, s, "list threads", "", query, args, func(r *sql.Rows) (segno.Thread, error) {
		var id segno.ThreadID
		var rec sql.RawBytes
		var isID *bool
		var l leaseRow
		if err := r.Scan(&id, &rec, &l.owner, &l.expires, &l.epoch, &isID); err != nil {
			return segno.Thread{}, err
		}
		if isID == nil || !*isID {
			return segno.Thread{}, corrupt("list threads", string(id), errID)
		}
		l.thread = id
		if err := l.check("list threads", s.seal != nil); err != nil {
			return segno.Thread{}, err
		}
		return s.readThread(id, rec)
	})
	return func(yield func(segno.Thread, error) bool) {
		if err := s.checkHidden(ctx); err != nil {
			yield(segno.Thread{}, err)
			return
		}
		found := 0
		for t, err := range all {
			if err == nil && !q.Matches(&t) {
				continue
			}
			if found++; !yield(t, err) || found == q.Limit {
				return
			}
		}
		if found == 0 && q.Session != "" {
			if err := s.missedSession(ctx, q.Session); err != nil {
				yield(segno.Thread{}, err)
			}
		}
	}
}

// fieldOf is the field of the term that a part's first commit has: the thread it is
// of.
const fieldOf = "of"

// shown is the condition for threads that are listed: those that are not hidden, and rows that
// are damaged and may say that they are.
const shown = `(t.hidden IS NOT 1 OR (SELECT z.n FROM threads z WHERE z.id = t.id) IS NOT t.n)`

// threadQuery finds at least the threads q asks for. Those that are parts of
// another are found by their first commit's term; which are of none only the
// records tell.
func (s *Store) threadQuery(q segno.ThreadQuery) (string, []any) {
	query, args := `SELECT t.id, t.record, t.owner, t.expires, t.epoch, (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n AND t.hidden = 0
		AND t.changed = (SELECT m.n FROM commits m WHERE m.thread = t.n AND m.seq = t.seq) FROM threads t WHERE `+shown, []any(nil)
	and := func(cond string, values ...any) {
		query += " AND " + cond
		args = append(args, values...)
	}
	if q.ParentThread != "" {
		query = `SELECT t.id, t.record, t.owner, t.expires, t.epoch, (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n AND t.hidden = 0
		AND t.changed = (SELECT m.n FROM commits m WHERE m.thread = t.n AND m.seq = t.seq) FROM terms x CROSS JOIN commits c ON c.n = x.n CROSS JOIN threads t ON t.n = c.thread WHERE ` + shown
		and("x.term = ?", s.seal.Term(fieldOf, string(q.ParentThread)))
	}
	if q.Workspace != "" {
		and("t.workspace = ?", string(q.Workspace))
	}
	if q.Session != "" {
		and("t.n IN (SELECT thread FROM links WHERE session = ?)", s.seal.Name("session", string(q.Session)))
	}
	if q.IDPrefix != "" {
		and("t.id >= ? AND t.id < ?", q.IDPrefix, q.IDPrefix+"\xff")
	}
	query += " ORDER BY t.changed DESC"
	if q.Limit > 0 && !q.TopLevel && q.ParentThread == "" {
		query += " LIMIT ?"
		args = append(args, q.Limit)
	}
	return query, args
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	return func(yield func(segno.Link, error) bool) {
		const op = "read chain"
		head, err := s.Head(ctx, thread)
		if err != nil {
			yield(segno.Link{}, err)
			return
		}
		hasHead := head.Link == segno.Link{}
		for l, err := range list(ctx, s, op, string(thread), `SELECT l.n, l.record FROM links l
			WHERE l.thread = (SELECT n FROM threads WHERE id = ? AND NOT hidden) ORDER BY l.n`, []any{string(thread)},
			func(r *sql.Rows) (segno.Link, error) {
				var n int64
				var rec sql.RawBytes
				if err := r.Scan(&n, &rec); err != nil {
					return segno.Link{}, err
				}
				return s.readLink(rec, thread, n)
			}) {
			if !yield(l, err) || err != nil {
				return
			}
			hasHead = hasHead || l.Session == head.Link.Session
		}
		if !hasHead {
			yield(segno.Link{}, corrupt(op, string(thread), errors.New("the head's session is missing")))
		}
	}
}

// list reads all of a short list, then yields it: nothing is held meanwhile.
func list[T any](ctx context.Context, s *Store, op, name, query string, args []any, scan func(*sql.Rows) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		err := s.read(ctx, op, name, func(calm context.Context, c *conn) error {
			return c.rows(calm, query, args, func(r *sql.Rows) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				x, err := scan(r)
				all = append(all, x)
				return err
			})
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func damaged(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return corrupt(op, name, err)
}

func (s *Store) loadLink(ctx context.Context, c *conn, thread segno.ThreadID, n int64) (segno.Link, error) {
	var rec []byte
	if _, err := c.row(ctx, `SELECT record FROM links WHERE n = ?`, []any{n}, &rec); err != nil {
		return segno.Link{}, err
	}
	return s.readLink(rec, thread, n)
}
