package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// A line's ancestry is walked upwards, one segment of a line at a time: from a
// node to the first node of its line, whose number is the line's, to that one's
// parent on another line. One query does the walk and returns the segments' nodes
// that are at least ?2 deep.
const loadLine = `
WITH RECURSIVE
	at(line, depth, low) AS (
		SELECT line, depth, CASE WHEN ?2 > 0 THEN depth - ?2 + 1 ELSE 0 END FROM commits WHERE id = ?1 AND line IS NOT NULL),
	segment(line, top, low) AS (
		SELECT line, depth, low FROM at
		UNION ALL
		SELECT p.line, p.depth, segment.low
		FROM segment CROSS JOIN commits f ON f.n = segment.line CROSS JOIN commits p ON p.n = f.parent
		WHERE f.depth > segment.low)
SELECT c.n, c.id, c.depth, c.seq, c.checkpoint, CASE WHEN ?3 THEN c.entries END, t.id, coalesce(p.id, '')
FROM segment
	CROSS JOIN commits c ON c.line = segment.line AND c.depth BETWEEN segment.low AND segment.top
	CROSS JOIN threads t ON t.n = c.thread
	LEFT JOIN commits p ON p.n = c.parent`

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, &segno.Error{Op: op, Name: string(at), Kind: segno.KindInvalid, Err: errors.New("the window is negative")}
	}
	var found []segment
	err := s.read(ctx, op, string(at), func(calm context.Context, c *conn) error {
		return c.rows(calm, loadLine, []any{string(at), w.Last, w.Entries}, func(r *sql.Rows) error {
			var n segment
			err := r.Scan(&n.row, &n.ID, &n.depth, &n.Seq, &n.checkpoint, &n.entries, &n.Thread, &n.Parent)
			found = append(found, n)
			return errors.Join(err, ctx.Err())
		})
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, notFound(op, string(at))
	}
	if err := s.expandAll(found); err != nil {
		return nil, err
	}
	return arrange(at, found)
}

// segment is a node, its depth, and its records as they are kept.
type segment struct {
	row, depth          int64
	checkpoint, entries []byte
	segno.Node
}

// expandAll decodes the records. That is most of what loading a long line costs,
// so it is shared out.
func (s *Store) expandAll(found []segment) error {
	const share = 64
	var group sync.WaitGroup
	errs := make([]error, (len(found)+share-1)/share)
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		part := found[i*share : min(len(found), (i+1)*share)]
		if len(errs) == 1 {
			return s.expandPart(part)
		}
		room <- struct{}{}
		group.Go(func() {
			errs[i] = s.expandPart(part)
			<-room
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *Store) expandPart(part []segment) (err error) {
	for i := range part {
		n := &part[i]
		if n.Checkpoint, err = s.readCheckpoint(n.checkpoint, n.Node); err != nil {
			return corrupt("read checkpoint", string(n.ID), err)
		}
		if n.Entries, err = s.readEntries(n.row, n.entries); err != nil {
			return corrupt("read entries", string(n.ID), err)
		}
	}
	return nil
}

// readCheckpoint decodes a packed checkpoint and adds what its row knows.
func (s *Store) readCheckpoint(packed []byte, at segno.Node) (*segno.Checkpoint, error) {
	if packed == nil {
		return nil, nil
	}
	rec, err := s.squeeze.Unpack(packed)
	if err != nil {
		return nil, err
	}
	c, err := record.DecodeCheckpoint(rec)
	if err != nil {
		return nil, err
	}
	c.ID, c.Thread, c.Parent, c.Seq = at.ID, at.Thread, at.Parent, at.Seq
	return c, nil
}

// readEntries decodes a row's packed entries; the bodies of small ones alias packed.
func (s *Store) readEntries(row int64, packed []byte) ([]segno.Entry, error) {
	if packed == nil {
		return nil, nil
	}
	if rec := s.expanded.get(row, packed); rec != nil {
		return record.DecodeEntries(rec)
	}
	rec, err := s.squeeze.Unpack(packed)
	if err != nil {
		return nil, err
	}
	s.expanded.put(row, packed, rec)
	return record.DecodeEntries(rec)
}

// arrange orders nodes by depth and proves that the line has no gap.
func arrange(at segno.CommitID, found []segment) (*segno.Line, error) {
	low := found[0].depth
	for _, n := range found {
		low = min(low, n.depth)
	}
	line := &segno.Line{Commits: make([]segno.Node, len(found))}
	for _, n := range found {
		i := n.depth - low
		if i >= int64(len(found)) || line.Commits[i].ID != "" {
			return nil, corrupt("load", string(at), errors.New("the line has a gap"))
		}
		line.Commits[i] = n.Node
	}
	if line.Commits[len(found)-1].ID != at {
		return nil, corrupt("load", string(at), errors.New("the line does not end there"))
	}
	return line, nil
}
