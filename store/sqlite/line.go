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
SELECT c.n, c.id, c.depth, c.seq, c.checkpoint, CASE WHEN ?3 OR c.checkpoint IS NULL THEN c.entries END, t.id, c.parent, coalesce(p.id, ''), (SELECT x.n FROM commits x WHERE x.id = c.id) = c.n AND (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n
FROM segment
	CROSS JOIN commits c ON c.line = segment.line AND c.depth BETWEEN segment.low AND segment.top
	CROSS JOIN threads t ON t.n = c.thread
	LEFT JOIN commits p ON p.n = c.parent`

// lineOf finds a node's line and depth, lineFrom a line's nodes from a depth on.
const (
	lineOf   = `SELECT line, depth FROM commits WHERE id = ? AND line IS NOT NULL`
	lineFrom = `
SELECT c.n, c.id, c.depth, c.seq, c.checkpoint, c.entries, t.id, c.parent, coalesce(p.id, ''), (SELECT x.n FROM commits x WHERE x.id = c.id) = c.n AND (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n
FROM commits c
	CROSS JOIN threads t ON t.n = c.thread
	LEFT JOIN commits p ON p.n = c.parent
WHERE c.line = ? AND c.depth BETWEEN ? AND ? ORDER BY c.depth`
)

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, segno.Errorf(segno.KindInvalid, op, string(at), "the window is negative")
	}
	var l loaded
	err := s.read(ctx, op, string(at), func(calm context.Context, c *conn) (err error) {
		if w.Last == 0 && w.Entries {
			if l, err = s.loadWhole(ctx, calm, c, at); err == nil && len(l.nodes) == 0 {
				err = missedNode(calm, c, op, string(at))
			}
			return err
		}
		if l.nodes, err = c.segments(ctx, calm, loadLine, string(at), w.Last, w.Entries); err == nil && len(l.nodes) == 0 {
			err = missedNode(calm, c, op, string(at))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(l.nodes) == 0 {
		return nil, notFound(op, string(at))
	}
	if !l.ordered {
		if l.nodes, err = arrange(at, l.nodes); err != nil {
			return nil, err
		}
	}
	if first := &l.nodes[0]; (w.Last == 0 || len(l.nodes) < w.Last) && (first.depth != 0 || first.Parent != "") {
		return nil, corrupt(op, string(at), errors.New("the line has no beginning"))
	}
	return s.decodeLine(&l, w.Entries)
}

// loaded is a line as the database or the cache has it.
type loaded struct {
	nodes   []segment
	ordered bool  // by depth, without a gap
	keep    int64 // the line to keep it as, if it is worth keeping
	shared  bool  // the cache has the records too
}

// loadWhole loads a whole line: what is kept of it, and the rest.
func (s *Store) loadWhole(ctx, calm context.Context, c *conn, at segno.CommitID) (l loaded, err error) {
	var line, depth int64
	if ok, err := c.row(calm, lineOf, []any{string(at)}, &line, &depth); !ok {
		return l, err
	}
	if kept := s.lines.get(line); kept != nil {
		low := min(depth, int64(len(kept))-1)
		fresh, err := c.segments(ctx, calm, lineFrom, line, low, depth)
		if err != nil {
			return l, err
		}
		// Between the two looks the row may have become another line's.
		if int64(len(fresh)) == depth-low+1 && fresh[0].ID == kept[low].ID && fresh[len(fresh)-1].ID == at {
			l = loaded{nodes: append(kept[:low+1:low+1], fresh[1:]...), ordered: true, shared: true}
			if len(fresh) > 1 {
				l.keep = line
			}
			return l, nil
		}
	}
	l.nodes, err = c.segments(ctx, calm, loadLine, string(at), 0, true)
	l.keep, l.shared = line, true
	return l, err
}

// segment is a node, its depth, and its records.
type segment struct {
	row, depth          int64
	checkpoint, entries []byte // packed as they are stored, unless opened
	opened              bool
	segno.Node          // without its checkpoint and entries
}

// segments reads the rows of a query for nodes.
func (c *conn) segments(ctx, calm context.Context, query string, args ...any) (found []segment, err error) {
	err = c.rows(calm, query, args, func(r *sql.Rows) error {
		var n segment
		var parent int64
		var isID *bool
		if err := r.Scan(&n.row, &n.ID, &n.depth, &n.Seq, &n.checkpoint, &n.entries, &n.Thread, &parent, &n.Parent, &isID); err != nil {
			return err
		}
		if isID == nil || !*isID {
			return corrupt("load", string(n.ID), errID)
		}
		if (parent == 0) != (n.Parent == "") {
			return corrupt("load", string(n.ID), errors.New("the commit before it is missing"))
		}
		found = append(found, n)
		return ctx.Err()
	})
	return found, err
}

// decodeLine opens and decodes the records. That is most of what loading a long line
// costs, so it is shared out.
func (s *Store) decodeLine(l *loaded, whole bool) (*segno.Line, error) {
	if err := inParts(len(l.nodes), func(from, to int) error { return s.openPart(l.nodes[from:to]) }); err != nil {
		return nil, err
	}
	for i := 1; i < len(l.nodes); i++ {
		if n, up := &l.nodes[i], &l.nodes[i-1]; n.Parent != up.ID || n.Thread == up.Thread && n.Seq <= up.Seq {
			return nil, corrupt("load", string(n.ID), errors.New("it does not follow the commit before it"))
		}
	}
	if l.keep != 0 {
		s.lines.put(l.keep, l.nodes)
	}
	line := &segno.Line{Commits: make([]segno.Node, len(l.nodes))}
	return line, inParts(len(l.nodes), func(from, to int) error {
		for i := range l.nodes[from:to] {
			if err := l.nodes[from:to][i].complete(whole); err != nil {
				return err
			}
		}
		if err := decodePart(l.nodes[from:to], line.Commits[from:to], l.shared); err != nil || whole {
			return err
		}
		for i := range line.Commits[from:to] {
			line.Commits[from:to][i].Entries = nil // they were not asked for
		}
		return nil
	})
}

// inParts calls do for the parts of n things, on all processors.
func inParts(n int, do func(from, to int) error) error {
	const share = 64
	if n <= share {
		return do(0, n)
	}
	var group sync.WaitGroup
	errs := make([]error, (n+share-1)/share)
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		room <- struct{}{}
		group.Go(func() {
			errs[i] = do(i*share, min(n, (i+1)*share))
			<-room
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// openPart unpacks the records that are not opened yet.
func (s *Store) openPart(part []segment) (err error) {
	for i := range part {
		n := &part[i]
		if n.opened {
			continue
		}
		if n.checkpoint, err = s.unpack(n.checkpoint, "checkpoint", n.Node); err != nil {
			return corrupt("read checkpoint", string(n.ID), err)
		}
		if n.entries, err = s.unpack(n.entries, "entries", n.Node); err != nil {
			return corrupt("read entries", string(n.ID), err)
		}
		n.opened = true
	}
	return nil
}

// unpack returns the record of what a column keeps, nil for none. A sealed one proves the
// node's thread, id and parent.
func (s *Store) unpack(packed []byte, what string, at segno.Node) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}
	packed, err := s.seal.Open(packed, what, string(at.Thread), string(at.ID), string(at.Parent))
	if err != nil {
		return nil, err
	}
	return s.squeeze.Unpack(packed)
}

// decodePart decodes opened records. The bodies of entries alias theirs, unless it is
// shared: then they get a copy.
func decodePart(part []segment, to []segno.Node, shared bool) (err error) {
	var room []byte
	if shared {
		size := 0
		for i := range part {
			size += len(part[i].entries)
		}
		room = make([]byte, 0, size)
	}
	for i := range part {
		n := &part[i]
		to[i] = n.Node
		if to[i].Checkpoint, err = decodeCheckpoint(n.checkpoint, n.Node); err != nil {
			return corrupt("read checkpoint", string(n.ID), err)
		}
		if n.entries == nil {
			continue
		}
		entries := n.entries
		if shared {
			at := len(room)
			room = append(room, entries...)
			entries = room[at:]
		}
		if to[i].Entries, err = record.DecodeEntries(entries); err != nil {
			return corrupt("read entries", string(n.ID), err)
		}
	}
	return nil
}

// complete proves that a node that was opened has both its records, as far as they say,
// if whole says that both were asked for. One without either nobody writes.
func (n *segment) complete(whole bool) error {
	switch {
	case n.checkpoint == nil && (n.entries == nil || record.HasOther(n.entries)):
		return corrupt("read checkpoint", string(n.ID), errors.New("it is missing"))
	case whole && n.entries == nil && record.HasOther(n.checkpoint):
		return corrupt("read entries", string(n.ID), errors.New("they are missing"))
	}
	return nil
}

// readCheckpoint decodes a packed checkpoint and adds what its row knows.
func (s *Store) readCheckpoint(packed []byte, at segno.Node) (*segno.Checkpoint, error) {
	rec, err := s.unpack(packed, "checkpoint", at)
	if err != nil {
		return nil, err
	}
	return decodeCheckpoint(rec, at)
}

func decodeCheckpoint(rec []byte, at segno.Node) (*segno.Checkpoint, error) {
	if rec == nil {
		return nil, nil
	}
	c, err := record.DecodeCheckpoint(rec)
	if err != nil {
		return nil, err
	}
	c.ID, c.Thread, c.Parent, c.Seq = at.ID, at.Thread, at.Parent, at.Seq
	return c, nil
}

// arrange orders nodes by depth and proves that the line has no gap.
func arrange(at segno.CommitID, found []segment) ([]segment, error) {
	low := found[0].depth
	for _, n := range found {
		low = min(low, n.depth)
	}
	nodes := make([]segment, len(found))
	for _, n := range found {
		i := n.depth - low
		if i >= int64(len(found)) || nodes[i].ID != "" {
			return nil, corrupt("load", string(at), errors.New("the line has a gap"))
		}
		nodes[i] = n
	}
	if nodes[len(nodes)-1].ID != at {
		return nil, corrupt("load", string(at), errors.New("the line does not end there"))
	}
	return nodes, nil
}
