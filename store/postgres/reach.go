package postgres

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
)

// graph is the tree of all threads as far as it was read, and what it reaches. It only
// grows: what is read later is what commits brought meanwhile, and nothing that comes
// makes a node be kept less.
type graph struct {
	nodes   map[int64]*graphNode
	ids     map[segno.CommitID]*graphNode
	roots   []*graphNode      // to be marked
	states  []*segno.Snapshot // of workspaces
	left    []*segno.Snapshot // of workspaces that an erased thread left so
	leftIn  [][]byte          // those workspaces
	seal    *record.Sealer
	reached map[segno.Hash]struct{} // by their names in the database
	// waiting are kept nodes whose objects nobody has looked at.
	waiting []*segno.Checkpoint

	retain     *segno.RetainedLines
	deleted    map[segno.ThreadID]bool
	operations [][]byte // of deleted threads
	*erasing            // nil unless deleted threads are erased
}

type graphNode struct {
	n, parent  int64
	hidden     bool // its thread was deleted
	amended    bool // another node of the same turn replaced it
	kept       bool
	checkpoint *segno.Checkpoint
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

func (s *Store) each(ctx context.Context, from querier, query string, args []any, each func(pgx.Rows) error) error {
	rows, err := from.Query(ctx, s.sql(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// read adds what commits with a number above since brought: nodes, and what keeps
// nodes: heads and tips, pins, operations, workspaces, and all nodes of threads that
// were not deleted, but for those that were amended.
func (g *graph) read(ctx context.Context, s *Store, from querier, since int64) error {
	fresh, err := g.readNodes(ctx, s, from, since)
	if err != nil {
		return err
	}
	for _, node := range fresh {
		if c := node.checkpoint; c != nil && !node.hidden {
			if old := g.ids[c.Amends]; old != nil {
				old.amended = true
			}
		}
	}
	for _, node := range fresh {
		if !node.hidden && !node.amended && g.retain.Keeps(g.checkpointAt(node)) {
			g.roots = append(g.roots, node)
		}
	}
	err = s.each(ctx, from, `SELECT head, tip FROM {}threads WHERE NOT hidden AND changed > $1
		UNION ALL SELECT c.id, c.id FROM {}pins p JOIN {}commits c ON c.n = p.n`, []any{since}, func(r pgx.Rows) error {
		var head, tip []byte
		err := r.Scan(&head, &tip)
		g.root(segno.CommitID(head), segno.CommitID(tip))
		return err
	})
	if err == nil {
		err = g.readOperations(ctx, s, from, since)
	}
	if err == nil {
		err = g.readStates(ctx, s, from)
	}
	return err
}

func (g *graph) readNodes(ctx context.Context, s *Store, from querier, since int64) (fresh []*graphNode, err error) {
	return fresh, s.each(ctx, from, `SELECT c.n, c.id, c.seq, coalesce(c.parent, 0), c.checkpoint, t.hidden, t.id, p.id
		FROM {}commits c JOIN {}threads t ON t.n = c.thread LEFT JOIN {}commits p ON p.n = c.parent WHERE c.line IS NOT NULL AND c.n > $1`, []any{since}, func(r pgx.Rows) error {
		node := new(graphNode)
		var at segno.Node
		var id, packed, thread, parent []byte
		if err := r.Scan(&node.n, &id, &at.Seq, &node.parent, &packed, &node.hidden, &thread, &parent); err != nil || g.nodes[node.n] != nil {
			return err
		}
		at.ID, at.Thread, at.Parent = segno.CommitID(id), segno.ThreadID(thread), segno.CommitID(parent)
		if node.checkpoint, err = s.readCheckpoint(packed, at); err != nil {
			return err
		}
		g.nodes[node.n], g.ids[at.ID] = node, node
		fresh = append(fresh, node)
		return nil
	})
}

// readOperations adds where operations began and ended. Those on a deleted thread cannot
// be taken back any more and keep nothing.
func (g *graph) readOperations(ctx context.Context, s *Store, from querier, since int64) error {
	g.deleted = map[segno.ThreadID]bool{}
	err := s.each(ctx, from, `SELECT id FROM {}threads WHERE hidden`, nil, func(r pgx.Rows) error {
		var id []byte
		err := r.Scan(&id)
		g.deleted[segno.ThreadID(id)] = true
		return err
	})
	if err != nil {
		return err
	}
	return s.each(ctx, from, `SELECT id, workspace, record FROM {}operations WHERE n > $1`, []any{since}, func(r pgx.Rows) error {
		var id, workspace, rec []byte
		if err := r.Scan(&id, &workspace, &rec); err != nil {
			return err
		}
		o, err := s.readOperation(id, workspace, rec)
		if err != nil {
			return err
		}
		if g.deleted[o.Thread] {
			g.operations = append(g.operations, id)
		} else if g.retain.KeepsOperation(&o) {
			g.root(o.Before.Head, o.Before.Tip, o.After.Head, o.After.Tip)
		}
		return nil
	})
}

// readStates adds the snapshots that workspaces hold now. There are few.
func (g *graph) readStates(ctx context.Context, s *Store, from querier) error {
	g.states, g.left, g.leftIn = nil, nil, nil
	return s.each(ctx, from, `SELECT id, state FROM {}workspaces WHERE state IS NOT NULL`, nil, func(r pgx.Rows) error {
		var id, rec []byte
		if err := r.Scan(&id, &rec); err != nil {
			return err
		}
		rec, err := s.seal.Open(rec, "state", string(id))
		if err != nil {
			return corrupt("read workspace", string(id), err)
		}
		state, err := record.DecodeState(segno.WorkspaceID(id), rec)
		if g.erasing != nil && g.deleted[state.Thread] {
			g.left, g.leftIn = append(g.left, state.Snapshot), append(g.leftIn, id)
		} else if state.Snapshot != nil {
			g.states = append(g.states, state.Snapshot)
		}
		return damaged("read workspace", string(id), err)
	})
}

// checkpointAt is the newest checkpoint at or before a node, or nil.
func (g *graph) checkpointAt(node *graphNode) *segno.Checkpoint {
	for ; node != nil; node = g.nodes[node.parent] {
		if node.checkpoint != nil {
			return node.checkpoint
		}
	}
	return nil
}

func (g *graph) root(ids ...segno.CommitID) {
	for _, id := range ids {
		if node := g.ids[id]; node != nil {
			g.roots = append(g.roots, node)
		}
	}
}

// mark keeps everything the roots reach: ancestors, and members in other threads. It
// reports whether there is something to trace.
func (g *graph) mark() bool {
	for len(g.roots) > 0 {
		node := g.roots[len(g.roots)-1]
		g.roots = g.roots[:len(g.roots)-1]
		if node.kept {
			continue
		}
		node.kept = true
		if up := g.nodes[node.parent]; up != nil {
			g.roots = append(g.roots, up)
		}
		if c := node.checkpoint; c != nil {
			for _, id := range c.Members {
				g.root(id)
			}
			if len(c.Refs()) > 0 {
				g.waiting = append(g.waiting, c)
			}
		}
	}
	for _, snap := range g.states {
		c := &segno.Checkpoint{Workspace: snap}
		for _, h := range c.Refs() {
			if _, ok := g.reached[g.seal.Hash("object", h)]; !ok {
				g.waiting = append(g.waiting, c)
				break
			}
		}
	}
	return len(g.waiting) > 0
}

// trace follows what waits to the objects it reaches.
func (g *graph) trace(ctx context.Context, o segno.Objects, p *segno.CollectPolicy) error {
	for _, c := range g.waiting {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Trace != nil {
			if err := p.Trace(ctx, o, *c, g.visit); err != nil {
				return err
			}
		}
		// After the policy has looked: it descends only into what is new.
		for _, h := range c.Refs() {
			g.visit(h)
		}
	}
	g.waiting = nil
	return nil
}

// visit is handed to the policy's Trace.
func (g *graph) visit(h segno.Hash) bool {
	kept := g.seal.Hash("object", h)
	if _, ok := g.reached[kept]; ok || h.IsZero() {
		return false
	}
	g.reached[kept] = struct{}{}
	return true
}
