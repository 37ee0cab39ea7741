package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/phase"
)

// MaxPage is the maximum number of checkpoints that are read at a time.
const MaxPage = 128

// Checkpoints implements [segno.Store]. Each page of a query without a limit is four times as large as the one
// before it, up to [MaxPage].
func (c *Common) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	const op = "list checkpoints"
	return func(yield func(segno.Checkpoint, error) bool) {
		if err := ledger.CheckQuery(&q); err != nil {
			yield(segno.Checkpoint{}, err)
			return
		}
		p := &page{position: math.MaxInt64}
		verify := func([]segno.Node, bool) error { return nil }
		if c.dialect.VerifyPage != nil {
			verify = c.dialect.VerifyPage(ctx, &q)
		}
		left := q.Limit
		for count := c.dialect.FirstPage; ; count = min(MaxPage, 4*count) {
			if left > 0 && q.Step == 0 {
				count = min(MaxPage, left) // no index contains the step, so more rows may be needed
			}
			err := c.readPage(ctx, &q, p, count)
			if err == nil {
				err = verify(p.listed, p.isLast)
			}
			if err != nil {
				yield(segno.Checkpoint{}, err)
				return
			}
			for _, found := range p.found {
				if !yield(found, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if p.isLast {
				return
			}
		}
	}
}

// page is the last part of a list of checkpoints that was read.
type page struct {
	position int64              // where the next page begins
	listed   []segno.Node       // the rows
	found    []segno.Checkpoint // the checkpoints in the rows that match the query
	isLast   bool
}

// readPage reads the next count rows.
func (c *Common) readPage(ctx context.Context, q *segno.CheckpointQuery, p *page, count int) error {
	const op = "list checkpoints"
	query, args := c.dialect.Checkpoints(q, p.position, count)
	return c.db.Read(ctx, op, string(q.Thread), func(queryCtx context.Context, on Querier) error {
		rows := 0
		p.listed, p.found = nil, nil
		var id, thread, parent, damage Text
		var checkpoint, pin []byte
		var at segno.Node
		var l LeaseRow
		dest := append([]any{&p.position, &id, &at.Seq, &thread, &parent, &checkpoint, &pin, &damage}, l.Dest()...)
		err := on.Query(queryCtx, query, args, dest, func() error {
			rows++
			at.ID, at.Thread, at.Parent = segno.CommitID(id), segno.ThreadID(thread), segno.CommitID(parent)
			if l.Hidden {
				l.Thread = at.Thread
				return c.db.VerifyLease(op, &l)
			}
			if damage != "" {
				return c.records.Corrupt(op, string(id), errors.New(string(damage)))
			}
			p.listed = append(p.listed, at)
			found, err := c.records.Checkpoint(checkpoint, at)
			if err == nil && q.Pinned {
				found.Label, err = c.records.Pin(at.ID, pin)
			}
			if err == nil && q.Matches(found) {
				p.found = append(p.found, *found)
			}
			return cmp.Or(err, ctx.Err())
		})
		p.isLast = rows < count
		return err
	})
}

// Threads implements [segno.Store].
func (c *Common) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	const op = "list threads"
	if err := phase.Check(&q); err != nil {
		return func(yield func(segno.Thread, error) bool) { yield(segno.Thread{}, err) }
	}
	if q.Phase != segno.PhaseUnknown {
		return phase.Threads(ctx, c.store, phaseIndex{c}, q)
	}
	return yieldAll(func() ([]segno.Thread, error) {
		query, args := c.dialect.Threads(&q)
		var id Text
		var rec []byte
		var isSound *bool
		var l LeaseRow
		all, err := List(ctx, c.db, op, "", query, args, append([]any{&id, &rec, &isSound}, l.Dest()...), func() (segno.Thread, error) {
			l.Thread = segno.ThreadID(id)
			err := c.sound(op, id, isSound)
			if err == nil {
				err = c.db.VerifyLease(op, &l)
			}
			if err != nil {
				return segno.Thread{}, err
			}
			return c.records.Thread(l.Thread, rec)
		})
		if err != nil {
			return nil, err
		}
		found := slices.DeleteFunc(all, func(t segno.Thread) bool { return !q.Matches(&t) })
		if q.Limit > 0 {
			found = found[:min(q.Limit, len(found))]
		}
		if c.dialect.VerifyThreads != nil {
			err = c.dialect.VerifyThreads(ctx, &q, len(found) == 0)
		}
		return found, err
	})
}

// sound returns an error if a row is not sound. NULL means the same as false.
func (c *Common) sound(op string, id Text, isSound *bool) error {
	if isSound == nil || !*isSound {
		return c.records.Corrupt(op, string(id), ErrID)
	}
	return nil
}

// phaseIndex implements [phase.Index].
type phaseIndex struct{ c *Common }

func (x phaseIndex) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	return x.c.dialect.Remember(ctx, f, p)
}

func (x phaseIndex) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, count int) (found []phase.Found, err error) {
	const op = "list threads"
	for _, p := range []segno.Phase{segno.PhaseUnknown, p} {
		query, args := x.c.dialect.InPhase(p, after, count)
		if query == "" {
			continue
		}
		var id, head Text
		var rec []byte
		var isSound *bool
		f := phase.Found{Phase: p}
		part, err := List(ctx, x.c.db, op, "", query, args, []any{&id, &rec, &head, &f.Seq, &isSound}, func() (phase.Found, error) {
			err := x.c.sound(op, id, isSound)
			if err == nil {
				f.Head = segno.CommitID(head)
				f.Thread, err = x.c.records.Thread(segno.ThreadID(id), rec)
			}
			return f, err
		})
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
	return found[:min(count, len(found))], nil
}

// Where collects the conditions of a query and their arguments. The mark of an argument contains its number, so the
// order of the conditions in the query does not matter.
type Where struct {
	Args []any
	text []string
}

// And adds a condition; each %s in it is one of the values.
func (w *Where) And(condition string, values ...any) {
	marks := make([]any, len(values))
	for i, v := range values {
		marks[i] = w.Arg(v)
	}
	w.text = append(w.text, fmt.Sprintf(condition, marks...))
}

// Arg adds an argument and returns its mark.
func (w *Where) Arg(value any) string {
	w.Args = append(w.Args, value)
	return fmt.Sprintf("?%d", len(w.Args))
}

// Prefix adds the condition that a column with ids begins with a prefix.
func (w *Where) Prefix(db Database, column, prefix string) {
	if prefix != "" {
		w.And(column+" >= %s AND "+column+" < %s", db.ID(prefix), db.ID(prefix+"\xff"))
	}
}

// String returns the conditions.
func (w *Where) String() string { return strings.Join(w.text, " AND ") }

// CheckpointConditions adds the conditions of a query for checkpoints. terms are the terms of the query. If there are
// any, the caller joins the table of terms as x. Otherwise, if the query asks for pins, it joins the table of pins as
// x. order is the column of the position.
func (w *Where) CheckpointConditions(db Database, q *segno.CheckpointQuery, terms []int64, order string, before int64) {
	for i, term := range terms {
		if i == 0 {
			w.And("x.term = %s", term)
		} else {
			w.And("EXISTS (SELECT 1 FROM {}terms y WHERE y.term = %s AND y.n = c.n)", term)
		}
	}
	w.And(order+" < %s", before)
	w.And("c.checkpoint IS NOT NULL")
	if q.Thread != "" {
		w.And("c.thread = (SELECT n FROM {}threads WHERE id = %s)", db.ID(string(q.Thread)))
	}
	w.Prefix(db, "c.id", q.IDPrefix)
	if q.Before != 0 {
		w.And("c.seq < %s", q.Before)
	}
	if q.Pinned {
		w.And("pin.name IS NOT NULL")
	}
}
