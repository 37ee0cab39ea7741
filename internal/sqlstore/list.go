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
	"github.com/dalsegno/segno/internal/phase"
)

// MaxPage is how many checkpoints are read at a time.
const MaxPage = 128

// Pages yields the checkpoints of a query, newest first. read returns up to count checkpoints that come
// before a position, and the position to continue from, 0 at the end. firstPage is the size of the first
// page of a query without a limit; each following page is four times as large, up to [MaxPage].
func Pages(q *segno.CheckpointQuery, firstPage int,
	read func(before int64, count int) ([]segno.Checkpoint, int64, error)) iter.Seq2[segno.Checkpoint, error] {
	return func(yield func(segno.Checkpoint, error) bool) {
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			yield(segno.Checkpoint{}, segno.Errorf(segno.KindInvalid, "list checkpoints", "",
				"before needs a thread, and neither it nor limit is negative"))
			return
		}
		position, left := int64(math.MaxInt64), q.Limit
		for count := firstPage; ; count = min(MaxPage, 4*count) {
			if left > 0 && q.Step == 0 {
				count = min(MaxPage, left) // no index has the step, so more rows may be needed
			}
			found, next, err := read(position, count)
			if err != nil {
				yield(segno.Checkpoint{}, err)
				return
			}
			if q.Limit > 0 {
				found = found[:min(len(found), left)]
				left -= len(found)
			}
			for _, c := range found {
				if !yield(c, nil) {
					return
				}
			}
			if next == 0 || q.Limit > 0 && left == 0 {
				return
			}
			position = next
		}
	}
}

// CheckpointRow is a row of a query for checkpoints.
type CheckpointRow struct {
	Position int64
	Node     segno.Node
	Damage   string // how the row is damaged, or ""

	id, thread, parent Text
	checkpoint, pin    []byte
}

// Scan scans a row: position, id, seq, thread, parent, checkpoint, the name of the pin, damage, and the
// columns for more.
func (c *CheckpointRow) Scan(r Row, more ...any) error {
	err := r.Scan(append([]any{&c.Position, &c.id, &c.Node.Seq, &c.thread, &c.parent, &c.checkpoint, &c.pin, (*Text)(&c.Damage)},
		more...)...)
	c.Node.ID, c.Node.Thread, c.Node.Parent = segno.CommitID(c.id), segno.ThreadID(c.thread), segno.CommitID(c.parent)
	return err
}

// Checkpoint decodes the row for a query. Its label is the name of the pin if the query asks for pins.
func (r *Records) QueriedCheckpoint(row *CheckpointRow, q *segno.CheckpointQuery) (*segno.Checkpoint, error) {
	if row.Damage != "" {
		return nil, r.Corrupt("list checkpoints", string(row.Node.ID), errors.New(row.Damage))
	}
	c, err := r.Checkpoint(row.checkpoint, row.Node)
	if err == nil && q.Pinned {
		c.Label, err = r.Pin(row.Node.ID, row.pin)
	}
	return c, err
}

// Where collects the conditions of a query and their arguments. The mark of an argument is its number, so the
// order in which the conditions stand in the query does not matter.
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

// CheckpointConditions adds the conditions of a query for checkpoints. terms are those of the query; the
// caller joins the table of terms as x if there are any, and otherwise the table of pins as x if the query
// asks for pins. order is the column of the position.
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

// Chain returns the chain of a thread, oldest link first. The query has the columns record and place: the last
// part of the place that the link was sealed to. A link ends when the next link that is not detached starts.
// The error is [segno.KindCorrupt] if the link of the head is missing.
func (r *Records) Chain(ctx context.Context, db Database, head segno.Head, query string) ([]segno.Link, error) {
	links, err := List(ctx, db, "read chain", string(head.Thread), query, []any{db.ID(string(head.Thread))},
		func(row Row) (segno.Link, error) {
			var rec []byte
			var place Text
			if err := row.Scan(&rec, &place); err != nil {
				return segno.Link{}, err
			}
			return r.Link(head.Thread, rec, "link", string(head.Thread), string(place))
		})
	if err != nil {
		return nil, err
	}
	open, hasHead := -1, head.Link == segno.Link{}
	for i := range links {
		l := &links[i]
		hasHead = hasHead || l.Session == head.Link.Session
		if l.Detached {
			continue
		}
		if open >= 0 {
			links[open].End = l.Start
		}
		open = i
	}
	if !hasHead {
		return nil, r.Corrupt("read chain", string(head.Thread), errors.New("the head's session is missing"))
	}
	return links, nil
}

// InPhase returns the first count threads that a query finds in a phase or in [segno.PhaseUnknown], by id.
// The columns are id, record, head, seq and whether the row is sound.
func (r *Records) InPhase(ctx context.Context, db Database, phases []segno.Phase, count int,
	query func(segno.Phase) (string, []any)) (found []phase.Found, err error) {
	const op = "list threads"
	for _, p := range phases {
		text, args := query(p)
		part, err := List(ctx, db, op, "", text, args, func(row Row) (f phase.Found, err error) {
			var id, head Text
			var rec []byte
			var isSound *bool
			if err := row.Scan(&id, &rec, &head, &f.Seq, &isSound); err != nil {
				return f, err
			}
			if isSound == nil || !*isSound {
				return f, r.Corrupt(op, string(id), ErrID)
			}
			f.Phase, f.Head = p, segno.CommitID(head)
			f.Thread, err = r.Thread(segno.ThreadID(id), rec)
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
