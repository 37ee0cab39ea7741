package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
)

// page is how many checkpoints are read at a time. Nothing is held between pages, so
// that whoever lists may call the store, and take their time.
const page = 128

// Checkpoints implements [segno.Store].
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	return func(yield func(segno.Checkpoint, error) bool) {
		const op = "list checkpoints"
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			yield(segno.Checkpoint{}, invalid(op, "", errors.New("before needs a thread, and neither it nor limit is negative")))
			return
		}
		at := int64(math.MaxInt64)
		for left := q.Limit; ; {
			want := page
			if q.Limit > 0 && q.Step == 0 {
				want = min(page, left)
			}
			found, last, err := s.checkpointPage(ctx, &q, at, want)
			if err != nil {
				yield(segno.Checkpoint{}, err)
				return
			}
			if q.Limit > 0 {
				found = found[:min(len(found), left)]
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
			at = last
		}
	}
}

// checkpointPage returns up to want checkpoints from before a place, and the place to
// go on from, 0 at the end.
func (s *Store) checkpointPage(ctx context.Context, q *segno.CheckpointQuery, before int64, want int) (found []*segno.Checkpoint, last int64, err error) {
	query, args := s.checkpointQuery(q, before, want)
	rows := 0
	err = s.rows(ctx, "list checkpoints", string(q.Thread), query, args, func() { found, rows = nil, 0 }, func(r pgx.Rows) error {
		rows++
		var at segno.Node
		var id, thread, parent, packed, pin []byte
		var isAlone bool
		if err := r.Scan(&last, &id, &at.Seq, &thread, &parent, &packed, &pin, &isAlone); err != nil {
			return err
		}
		at.ID, at.Thread, at.Parent = segno.CommitID(id), segno.ThreadID(thread), segno.CommitID(parent)
		if isAlone {
			return corrupt("list checkpoints", string(at.ID), errors.New("a commit beside it is missing"))
		}
		c, err := s.readCheckpoint(packed, at)
		if err != nil {
			return err
		}
		if q.Pinned {
			name, err := s.seal.Open(pin, "pin", string(at.ID))
			if err != nil {
				return corrupt("read pin", string(at.ID), err)
			}
			c.Label = string(name)
		}
		if q.Matches(c) {
			found = append(found, c)
		}
		return nil
	})
	if rows < want {
		last = 0
	}
	return found, last, err
}

// conditions are a query's WHERE and its parameters.
type conditions struct {
	text []string
	args []any
}

// and adds a condition; each %s is one of the values.
func (c *conditions) and(format string, values ...any) {
	at := make([]any, len(values))
	for i, v := range values {
		at[i] = c.arg(v)
	}
	c.text = append(c.text, fmt.Sprintf(format, at...))
}

func (c *conditions) arg(value any) string {
	c.args = append(c.args, value)
	return fmt.Sprintf("$%d", len(c.args))
}

func (c *conditions) prefix(column, prefix string) {
	if prefix != "" {
		c.and(column+" >= %s AND "+column+" < %s", []byte(prefix), []byte(prefix+"\xff"))
	}
}

// checkpointQuery drives the query by its rarest condition, in the order of an index
// for that. A thread's own are in the order of seq, all others in that of n.
func (s *Store) checkpointQuery(q *segno.CheckpointQuery, before int64, want int) (string, []any) {
	var where conditions
	from, order := "{}commits c", "c.n"
	terms := s.seal.Asked(q)
	switch {
	case len(terms) > 0:
		from, order = "{}terms x JOIN {}commits c ON c.n = x.n", "x.n"
		where.and("x.term = %s", terms[0])
		for _, t := range terms[1:] {
			where.and("EXISTS (SELECT FROM {}terms y WHERE y.term = %s AND y.n = c.n)", t)
		}
	case q.Pinned:
		from = "{}pins x JOIN {}commits c ON c.n = x.n"
	case q.IDPrefix == "" && q.Thread != "":
		order = "c.seq"
	}
	where.and(order+" < %s", before)
	where.and("c.checkpoint IS NOT NULL AND NOT t.hidden")
	if q.Thread != "" {
		where.and("c.thread = (SELECT n FROM {}threads WHERE id = %s)", []byte(q.Thread))
	}
	where.prefix("c.id", q.IDPrefix)
	if q.Before != 0 {
		where.and("c.seq < %s", q.Before)
	}
	if q.Pinned {
		where.and("pin.name IS NOT NULL")
	}
	limit := where.arg(want)
	// The commits of a thread are numbered without a gap. The planner may answer an EXISTS
	// with a hash of all commits, but never a subquery for a value.
	return `SELECT ` + order + `, c.id, c.seq, t.id, p.id, c.checkpoint, pin.name, c.parent IS NOT NULL AND p.n IS NULL
			OR c.seq > 1 AND (SELECT x.n FROM {}commits x WHERE x.thread = c.thread AND x.seq = c.seq - 1) IS NULL
			OR c.seq < t.seq AND (SELECT x.n FROM {}commits x WHERE x.thread = c.thread AND x.seq = c.seq + 1) IS NULL
		FROM ` + from + ` JOIN {}threads t ON t.n = c.thread
			LEFT JOIN {}commits p ON p.n = c.parent LEFT JOIN {}pins pin ON pin.n = c.n
		WHERE ` + strings.Join(where.text, " AND ") + ` ORDER BY ` + order + ` DESC LIMIT ` + limit, where.args
}

// Threads implements [segno.Store].
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	if err := phase.Check(&q); err != nil {
		return func(yield func(segno.Thread, error) bool) { yield(segno.Thread{}, err) }
	}
	if q.Phase != segno.PhaseUnknown {
		return phase.Threads(ctx, s, index{s}, q)
	}
	var where conditions
	where.and("NOT t.hidden")
	if q.ParentThread != "" {
		where.and("t.whole = %s", digestOf(string(q.ParentThread)))
	}
	if q.TopLevel {
		where.and("t.whole IS NULL")
	}
	if q.Workspace != "" {
		where.and("t.workspace = %s", digestOf(string(q.Workspace)))
	}
	if q.Session != "" {
		where.and("t.n IN (SELECT thread FROM {}links WHERE session = %s)", digestOf(s.seal.Name("session", string(q.Session))))
	}
	where.prefix("t.id", q.IDPrefix)
	query := `SELECT t.id, t.record FROM {}threads t WHERE ` + strings.Join(where.text, " AND ") + ` ORDER BY t.changed DESC`
	if q.Limit > 0 {
		query += ` LIMIT ` + where.arg(q.Limit)
	}
	return list(ctx, s, "list threads", "", query, where.args, func(r pgx.Rows) (segno.Thread, error) {
		var id, rec []byte
		if err := r.Scan(&id, &rec); err != nil {
			return segno.Thread{}, err
		}
		return s.readThread(id, rec)
	})
}

func (s *Store) readThread(id, rec []byte) (segno.Thread, error) {
	rec, err := s.seal.Open(rec, "thread", string(id))
	if err != nil {
		return segno.Thread{}, corrupt("read thread", string(id), err)
	}
	t, err := record.DecodeThread(segno.ThreadID(id), rec)
	return t, damaged("read thread", string(id), err)
}

// Chain implements [segno.Chains]. A link ends when the next one that is not aside
// begins.
func (s *Store) Chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	return func(yield func(segno.Link, error) bool) {
		standing, err := s.Head(ctx, thread)
		if err != nil {
			yield(segno.Link{}, err)
			return
		}
		var all []segno.Link
		head := -1
		links := list(ctx, s, "read chain", string(thread), `SELECT l.record, c.id FROM {}links l JOIN {}commits c ON c.thread = l.thread AND c.seq = l.seq
			WHERE l.thread = (SELECT n FROM {}threads WHERE id = $1 AND NOT hidden) ORDER BY l.seq`, []any{[]byte(thread)},
			func(r pgx.Rows) (segno.Link, error) {
				var rec, id []byte
				if err := r.Scan(&rec, &id); err != nil {
					return segno.Link{}, err
				}
				return readLink(s.seal, string(thread), rec, string(id))
			})
		for l, err := range links {
			if err != nil {
				yield(l, err)
				return
			}
			all = append(all, l)
			if l.Detached {
				continue
			}
			if head >= 0 {
				all[head].End = l.Start
			}
			head = len(all) - 1
		}
		if standing.Link != (segno.Link{}) && !slices.ContainsFunc(all, func(l segno.Link) bool { return l.Session == standing.Link.Session }) {
			yield(segno.Link{}, corrupt("read chain", string(thread), errors.New("the head's session is missing")))
			return
		}
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// list reads all of a short list, then yields it: nothing is held meanwhile.
func list[T any](ctx context.Context, s *Store, op, name, query string, args []any, scan func(pgx.Rows) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		err := s.rows(ctx, op, name, query, args, func() { all = nil }, func(r pgx.Rows) error {
			x, err := scan(r)
			all = append(all, x)
			return err
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
