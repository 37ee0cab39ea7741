package sqlite

import (
	"context"
	"database/sql"

	"github.com/dalsegno/segno"
)

// graph is the tree of all threads, read at one moment.
type graph struct {
	nodes map[int64]*graphNode
	ids   map[segno.CommitID]int64
	roots []int64 // what is kept for its own sake

	deleted    map[segno.ThreadID]bool
	operations []segno.OperationID // of deleted threads
}

type graphNode struct {
	n, parent  int64
	hidden     bool // its thread was deleted
	amended    bool // another node of the same turn replaced it
	kept       bool
	checkpoint *segno.Checkpoint
}

// readGraph reads every node and what keeps them: heads and tips, pins,
// operations, and all nodes of threads that were not deleted, but for those that
// were amended.
func (s *Store) readGraph(ctx context.Context, c *conn, retain *segno.RetainedLines) (*graph, error) {
	g := &graph{nodes: map[int64]*graphNode{}, ids: map[segno.CommitID]int64{}}
	if err := s.readNodes(ctx, c, g); err != nil {
		return nil, err
	}
	for _, node := range g.nodes {
		if node.checkpoint == nil {
			continue
		}
		if old := g.nodes[g.ids[node.checkpoint.Amends]]; old != nil && !node.hidden {
			old.amended = true
		}
	}
	for n, node := range g.nodes {
		if !node.hidden && !node.amended && retain.Keeps(g.checkpointAt(node)) {
			g.roots = append(g.roots, n)
		}
	}
	number := func(r *sql.Rows) error {
		var head, tip int64
		err := r.Scan(&head, &tip)
		g.roots = append(g.roots, head, tip)
		return err
	}
	if err := c.rows(ctx, `SELECT head, tip FROM threads WHERE NOT hidden`, nil, number); err != nil {
		return nil, err
	}
	if err := c.rows(ctx, `SELECT n, n FROM pins`, nil, number); err != nil {
		return nil, err
	}
	return g, s.readOperationRoots(ctx, c, g, retain)
}

func (s *Store) readNodes(ctx context.Context, c *conn, g *graph) error {
	return c.rows(ctx, `SELECT c.n, c.id, c.seq, c.parent, c.checkpoint, t.hidden, t.id, coalesce(p.id, '')
		FROM commits c JOIN threads t ON t.n = c.thread LEFT JOIN commits p ON p.n = c.parent
		WHERE c.line IS NOT NULL`, nil, func(r *sql.Rows) error {
		node := new(graphNode)
		var at segno.Node
		var packed sql.RawBytes
		if err := r.Scan(&node.n, &at.ID, &at.Seq, &node.parent, &packed, &node.hidden, &at.Thread, &at.Parent); err != nil {
			return err
		}
		var err error
		if node.checkpoint, err = s.readCheckpoint(packed, at); err != nil {
			return corrupt("read checkpoint", string(at.ID), err)
		}
		g.nodes[node.n] = node
		g.ids[at.ID] = node.n
		return nil
	})
}

// readOperationRoots adds where operations began and ended. Those on a deleted
// thread cannot be taken back any more and keep nothing.
func (s *Store) readOperationRoots(ctx context.Context, c *conn, g *graph, retain *segno.RetainedLines) error {
	g.deleted = map[segno.ThreadID]bool{}
	err := c.rows(ctx, `SELECT id FROM threads WHERE hidden`, nil, func(r *sql.Rows) error {
		var id segno.ThreadID
		err := r.Scan(&id)
		g.deleted[id] = true
		return err
	})
	if err != nil {
		return err
	}
	return c.rows(ctx, `SELECT id, workspace, record FROM operations`, nil, func(r *sql.Rows) error {
		var id segno.OperationID
		var workspace segno.WorkspaceID
		var rec sql.RawBytes
		if err := r.Scan(&id, &workspace, &rec); err != nil {
			return err
		}
		o, err := s.readOperation(id, workspace, rec)
		if err != nil {
			return err
		}
		if g.deleted[o.Thread] {
			g.operations = append(g.operations, id)
			return nil
		}
		if !retain.KeepsOperation(&o) {
			return nil
		}
		for _, at := range []segno.CommitID{o.Before.Head, o.Before.Tip, o.After.Head, o.After.Tip} {
			g.keepID(at)
		}
		return nil
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

func (g *graph) keepID(id segno.CommitID) {
	if n := g.ids[id]; n != 0 {
		g.roots = append(g.roots, n)
	}
}

// mark keeps everything the roots reach: ancestors, and members in other threads.
func (g *graph) mark() {
	todo := g.roots
	for len(todo) > 0 {
		node := g.nodes[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		if node == nil || node.kept {
			continue
		}
		node.kept = true
		todo = append(todo, node.parent)
		if node.checkpoint != nil {
			for _, id := range node.checkpoint.Members {
				todo = append(todo, g.ids[id])
			}
		}
	}
}

// reach is the set of objects something kept names. It only grows, so that a
// second look costs no more than what came since the first.
type reach struct {
	s    *Store
	p    segno.CollectPolicy
	seen map[segno.Hash]struct{} // by their names in the database

	*erasing // nil unless deleted threads are erased
}

// visit is handed to the policy's Trace.
func (x *reach) visit(h segno.Hash) bool {
	if h.IsZero() {
		return false
	}
	named := x.s.named(h)
	if _, ok := x.seen[named]; ok {
		return false
	}
	x.seen[named] = struct{}{}
	return true
}

// trace adds what a checkpoint reaches. What it names itself is added after the
// policy has looked: it descends only into what is new.
func (x *reach) trace(ctx context.Context, c *segno.Checkpoint, visit func(segno.Hash) bool) error {
	if c == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if x.p.Trace != nil {
		if err := x.p.Trace(ctx, x.s.Objects(), *c, visit); err != nil {
			return err
		}
	}
	for _, h := range c.Refs() {
		visit(h)
	}
	return nil
}

// everything adds what kept nodes, workspaces and the policy's checkpoints reach.
func (x *reach) everything(ctx context.Context, c *conn, g *graph) error {
	for _, node := range g.nodes {
		if node.kept {
			if err := x.trace(ctx, node.checkpoint, x.visit); err != nil {
				return err
			}
		}
	}
	for i := range x.p.Checkpoints {
		if err := x.trace(ctx, &x.p.Checkpoints[i], x.visit); err != nil {
			return err
		}
	}
	var states, left []*segno.Snapshot
	if x.erasing != nil {
		clear(x.workspaces) // of those found at the first look some may be at another thread now
	}
	err := c.rows(ctx, `SELECT id, state FROM workspaces WHERE state IS NOT NULL`, nil, func(r *sql.Rows) error {
		var id segno.WorkspaceID
		var rec sql.RawBytes
		if err := r.Scan(&id, &rec); err != nil {
			return err
		}
		state, err := x.s.readState(id, rec)
		if x.erasing != nil && g.deleted[state.Thread] {
			x.workspaces[id] = true
			left = append(left, state.Snapshot)
		} else if state.Snapshot != nil {
			states = append(states, state.Snapshot)
		}
		return err
	})
	for _, snap := range states {
		if err == nil {
			err = x.trace(ctx, &segno.Checkpoint{Workspace: snap}, x.visit)
		}
	}
	if err != nil || x.erasing == nil {
		return err
	}
	return x.deletedObjects(ctx, g, left)
}
