package sqlite

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// loadLine returns the nodes of a line; ?2 is the number of nodes, 0 for all. It follows the ancestry one
// segment at a time: from a node to the first node of its line, whose number is the number of the line, and
// then to the parent of that node, which is on another line.
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
SELECT c.n, c.id, c.depth, c.seq, c.checkpoint, CASE WHEN ?3 OR c.checkpoint IS NULL THEN c.entries END, ` + nodeTail + `
FROM segment
	CROSS JOIN commits c ON c.line = segment.line AND c.depth BETWEEN segment.low AND segment.top
	CROSS JOIN threads t ON t.n = c.thread
	LEFT JOIN commits p ON p.n = c.parent`

// nodeTail lists the last columns of a node c of thread t with the parent p: their ids, and whether these
// equal the ids in the indexes.
const nodeTail = `t.id, c.parent, coalesce(p.id, ''),
	(SELECT x.n FROM commits x WHERE x.id = c.id) = c.n AND (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n`

// segmentFrom returns the nodes of one segment from a depth on.
const segmentFrom = `
SELECT c.n, c.id, c.depth, c.seq, c.checkpoint, c.entries, ` + nodeTail + `
FROM commits c
	CROSS JOIN threads t ON t.n = c.thread
	LEFT JOIN commits p ON p.n = c.parent
WHERE c.line = ? AND c.depth BETWEEN ? AND ? ORDER BY c.depth`

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if err := ledger.CheckWindow(at, w); err != nil {
		return nil, err
	}
	var nodes []sqlstore.Node
	isWhole := w.Last == 0 && w.Entries
	var cacheAs int64 // the number of the line in the cache; 0 if the cache already has the whole line
	err := s.read(ctx, op, string(at), func(queryCtx context.Context, c *conn) (err error) {
		if isWhole {
			nodes, cacheAs, err = s.readWhole(ctx, queryCtx, c, at)
		} else {
			nodes, err = c.nodes(ctx, queryCtx, loadLine, string(at), w.Last, w.Entries)
		}
		if err == nil && len(nodes) == 0 {
			err = missedNode(queryCtx, c, op, string(at))
		}
		return err
	})
	if err == nil && len(nodes) == 0 {
		err = notFound(op, string(at))
	}
	if err == nil {
		err = s.records.Arrange(at, w.Last, nodes)
	}
	if err != nil {
		return nil, err
	}
	line, err := s.records.Decode(nodes, w.Entries, isWhole)
	if err == nil && cacheAs != 0 {
		s.lines.put(cacheAs, nodes)
	}
	return line, err
}

// readWhole reads a whole line. It takes the beginning from the cache, as far as that has it, and the rest
// from the database. The cache is keyed by the number of the line's newest segment. readWhole uses it only if
// the database still has the last cached node at its place. To verify that, it reads that node again,
// together with the nodes after it.
func (s *Store) readWhole(ctx, queryCtx context.Context, c *conn, at segno.CommitID) (nodes []sqlstore.Node, cacheAs int64, err error) {
	var line, depth int64
	if ok, err := c.row(queryCtx, `SELECT line, depth FROM commits WHERE id = ? AND line IS NOT NULL`, []any{string(at)}, &line,
		&depth); !ok {
		return nil, 0, err
	}
	if cached := s.lines.get(line); cached != nil {
		low := min(depth, int64(len(cached))-1)
		fresh, err := c.nodes(ctx, queryCtx, segmentFrom, line, low, depth)
		if err != nil {
			return nil, 0, err
		}
		// A collection may have changed the line between the two queries.
		if int64(len(fresh)) == depth-low+1 && fresh[0].ID == cached[low].ID && fresh[len(fresh)-1].ID == at {
			if len(fresh) > 1 {
				cacheAs = line
			}
			return append(cached[:low+1:low+1], fresh[1:]...), cacheAs, nil
		}
	}
	nodes, err = c.nodes(ctx, queryCtx, loadLine, string(at), 0, true)
	return nodes, line, err
}

// nodes reads the rows of a query for nodes.
func (c *conn) nodes(ctx, queryCtx context.Context, query string, args ...any) (found []sqlstore.Node, err error) {
	var n sqlstore.Node
	var parent int64
	var isID *bool
	err = c.Query(queryCtx, query, args, []any{&n.Row, &n.ID, &n.Depth, &n.Seq, &n.Records[sqlstore.Checkpoint],
		&n.Records[sqlstore.Entries], &n.Thread, &parent, &n.Parent, &isID}, func() error {
		if isID == nil || !*isID {
			return corrupt("load", string(n.ID), sqlstore.ErrID)
		}
		n.IsRoot = parent == 0
		if n.IsRoot != (n.Parent == "") {
			return corrupt("load", string(n.ID), errors.New("the commit before it is missing"))
		}
		found = append(found, n)
		return ctx.Err()
	})
	return found, err
}
