package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// Graph is the tree of all threads, with the objects that it reaches. A collection keeps both. The graph only grows: no
// later commit makes an earlier node unreachable. So a collection reads and traces most of it while other writers run.
// Then it blocks the writers and reads the commits that they made in the meantime.
type Graph struct {
	records *Records
	dialect *Dialect
	objects segno.Objects
	policy  *segno.CollectPolicy

	nodes   map[int64]*GraphNode
	ids     map[segno.CommitID]*GraphNode
	roots   []*GraphNode            // not marked yet
	waiting []*segno.Checkpoint     // marked, but not traced yet
	reached map[segno.Hash]bool     // stored names of the objects that kept nodes reach
	refs    map[ref]bool            // the references of the checkpoints that wait or were traced
	deleted map[segno.ThreadID]bool // deleted threads

	// Erasure is nil in a collection.
	Erasure *Erasure
}

// GraphNode is a node of the tree.
type GraphNode struct {
	Row        int64
	Checkpoint *segno.Checkpoint // nil for a commit with only entries

	parent      int64
	isDeleted   bool // the thread of the node is deleted
	isAmended   bool // another node of the same turn replaced it
	isReachable bool
}

// Erasure lists the records that an erasure of deleted threads removes, although a collection would
// keep them.
type Erasure struct {
	Threads    []segno.ThreadID    // the deleted threads
	Operations []segno.OperationID // the operations of deleted threads
	Workspaces []segno.WorkspaceID // the workspaces whose state belongs to a deleted thread

	objects map[segno.Hash]bool // stored names of the objects that only deleted threads reach
	states  []*segno.Snapshot   // the states of those workspaces
}

// NewGraph returns an empty graph. If erase is true, it also finds the records that an erasure removes.
func NewGraph(c *Common, p *segno.CollectPolicy, erase bool) *Graph {
	g := &Graph{records: c.records, dialect: &c.dialect, objects: c.store.Objects(), policy: p,
		nodes: map[int64]*GraphNode{}, ids: map[segno.CommitID]*GraphNode{}, reached: map[segno.Hash]bool{},
		refs: map[ref]bool{}}
	if erase {
		g.Erasure = &Erasure{objects: map[segno.Hash]bool{}}
	}
	return g
}

// Drops reports whether a collection deletes the object with a stored name. It deletes old objects that no kept node
// reaches. It keeps a young object, because an uncommitted batch may have put it, unless it erases deleted threads and
// only these reach the object. If the policy has no Trace, it deletes no objects.
func (g *Graph) Drops(stored segno.Hash, isOld bool) bool {
	return g.policy.Trace != nil && !g.reached[stored] && (isOld || g.Erasure != nil && g.Erasure.objects[stored])
}

// Unreachable returns the nodes that are not kept, and the number of those with a checkpoint.
func (g *Graph) Unreachable() (nodes []*GraphNode, checkpoints int) {
	for _, n := range g.nodes {
		if n.isReachable {
			continue
		}
		nodes = append(nodes, n)
		if n.Checkpoint != nil {
			checkpoints++
		}
	}
	return nodes, checkpoints
}

// Read adds the commits with a number above since, and the roots. Roots are the heads and tips of threads, pins, the
// ends of operations, the states of workspaces, and the checkpoints of the policy. All nodes of threads that are not
// deleted are roots, too, except amended nodes and those that the policy's retention drops.
func (g *Graph) Read(ctx context.Context, q Querier, since int64) error {
	for _, read := range []func(context.Context, Querier, int64) error{g.readNodes, g.readPointers, g.readDeleted, g.readOperations,
		g.readStates} {
		if err := read(ctx, q, since); err != nil {
			return err
		}
	}
	for i := range g.policy.Checkpoints {
		c := &g.policy.Checkpoints[i]
		g.addRoots(c.ID, c.Parent)
		g.await(c)
	}
	return nil
}

func (g *Graph) readNodes(ctx context.Context, q Querier, since int64) error {
	var fresh []*GraphNode
	var x GraphNode
	var at segno.Node
	var id, thread, parent Text
	var packed []byte
	err := q.Query(ctx, `SELECT c.n, c.id, c.seq, coalesce(c.parent, 0), c.checkpoint, t.hidden, t.id, p.id
		FROM {}commits c JOIN {}threads t ON t.n = c.thread LEFT JOIN {}commits p ON p.n = c.parent
		WHERE c.line IS NOT NULL AND c.n > ?1`, []any{since},
		[]any{&x.Row, &id, &at.Seq, &x.parent, &packed, &x.isDeleted, &thread, &parent}, func() (err error) {
			if g.nodes[x.Row] != nil {
				return nil
			}
			n := x
			at.ID, at.Thread, at.Parent = segno.CommitID(id), segno.ThreadID(thread), segno.CommitID(parent)
			if n.Checkpoint, err = g.records.Checkpoint(packed, at); err != nil {
				return err
			}
			g.nodes[n.Row], g.ids[at.ID] = &n, &n
			fresh = append(fresh, &n)
			return nil
		})
	if err != nil {
		return err
	}
	for _, n := range fresh {
		if n.Checkpoint != nil && !n.isDeleted {
			if old := g.ids[n.Checkpoint.Amends]; old != nil {
				old.isAmended = true
			}
		}
	}
	for _, n := range fresh {
		if !n.isDeleted && !n.isAmended && g.policy.Retain.Keeps(g.checkpointAt(n)) {
			g.roots = append(g.roots, n)
		}
	}
	return nil
}

// readPointers adds the heads and tips of threads that changed. It adds all pins, because a pin does not record the
// number of the commit that set it.
func (g *Graph) readPointers(ctx context.Context, q Querier, since int64) error {
	var head, tip Text
	return q.Query(ctx, g.dialect.Pointers, []any{since}, []any{&head, &tip}, func() error {
		g.addRoots(segno.CommitID(head), segno.CommitID(tip))
		return nil
	})
}

func (g *Graph) readDeleted(ctx context.Context, q Querier, _ int64) error {
	g.deleted = map[segno.ThreadID]bool{}
	var id Text
	err := q.Query(ctx, `SELECT id FROM {}threads WHERE hidden`, nil, []any{&id}, func() error {
		g.deleted[segno.ThreadID(id)] = true
		return nil
	})
	if g.Erasure != nil {
		g.Erasure.Threads = slices.Collect(maps.Keys(g.deleted))
	}
	return err
}

// readOperations adds the ends of operations. It skips operations on deleted threads, because they cannot be undone.
func (g *Graph) readOperations(ctx context.Context, q Querier, since int64) error {
	var id, workspace Text
	var rec []byte
	return q.Query(ctx, g.dialect.Operations, []any{since}, []any{&id, &workspace, &rec}, func() error {
		o, err := g.records.Operation(segno.OperationID(id), segno.WorkspaceID(workspace), rec)
		switch {
		case err != nil:
			return err
		case g.deleted[o.Thread] && g.Erasure != nil:
			g.Erasure.Operations = append(g.Erasure.Operations, o.ID)
		case !g.deleted[o.Thread] && g.policy.Retain.KeepsOperation(&o):
			g.addRoots(o.Before.Head, o.Before.Tip, o.After.Head, o.After.Tip)
		}
		return nil
	})
}

// readStates adds the present snapshots of workspaces. It reads all of them each time, because a state does not record
// the number of the commit that changed it.
func (g *Graph) readStates(ctx context.Context, q Querier, _ int64) error {
	if g.Erasure != nil {
		g.Erasure.states, g.Erasure.Workspaces = nil, nil
	}
	var id Text
	var rec []byte
	return q.Query(ctx, `SELECT id, state FROM {}workspaces WHERE state IS NOT NULL`, nil, []any{&id, &rec}, func() error {
		state, err := g.records.State(segno.WorkspaceID(id), rec)
		switch {
		case err != nil:
			return err
		case g.Erasure != nil && g.deleted[state.Thread]:
			g.Erasure.Workspaces = append(g.Erasure.Workspaces, segno.WorkspaceID(id))
			g.Erasure.states = append(g.Erasure.states, state.Snapshot)
		case state.Snapshot != nil:
			g.await(&segno.Checkpoint{Workspace: state.Snapshot})
		}
		return nil
	})
}

// checkpointAt returns the newest checkpoint at or before a node, or nil.
func (g *Graph) checkpointAt(n *GraphNode) *segno.Checkpoint {
	for ; n != nil; n = g.nodes[n.parent] {
		if n.Checkpoint != nil {
			return n.Checkpoint
		}
	}
	return nil
}

func (g *Graph) addRoots(ids ...segno.CommitID) {
	for _, id := range ids {
		if n := g.ids[id]; n != nil {
			g.roots = append(g.roots, n)
		}
	}
}

// await queues a kept checkpoint for Trace, unless queued checkpoints together have the same references. It is not enough that
// an object was reached: a file may have the bytes of a tree or of a log.
func (g *Graph) await(c *segno.Checkpoint) {
	isTraced := true
	for _, r := range refsOf(c) {
		if !r.name.IsZero() && !g.refs[r] {
			g.refs[r], isTraced = true, false
		}
	}
	if !isTraced {
		g.waiting = append(g.waiting, c)
	}
}

// ref is a reference of a checkpoint. Which objects Trace finds through an object depends on the kind of the reference.
type ref struct {
	kind string
	name segno.Hash
}

// refsOf returns what [segno.Checkpoint.Refs] returns, with the kinds. A name may be zero.
func refsOf(c *segno.Checkpoint) []ref {
	refs := []ref{{"points", c.Points}}
	if w := c.Workspace; w != nil {
		refs = append(refs, ref{"tree", w.Tree}, ref{"times", w.Times})
		if w.World != nil {
			refs = append(refs, ref{"files " + w.World.Type, w.World.Data})
		}
	}
	if s := c.Session; s != nil {
		refs = append(refs, ref{"log " + s.Agent, s.Log}, ref{"sidecars " + s.Agent, s.Sidecars})
	}
	for _, d := range []*segno.Document{c.State, c.World} {
		if d != nil {
			refs = append(refs, ref{"document", d.Data})
		}
	}
	return refs
}

// Mark keeps all nodes that the roots reach: their ancestors, and their members in other threads. It
// reports whether checkpoints wait for Trace.
func (g *Graph) Mark() (mustTrace bool) {
	for len(g.roots) > 0 {
		n := g.roots[len(g.roots)-1]
		g.roots = g.roots[:len(g.roots)-1]
		if n.isReachable {
			continue
		}
		n.isReachable = true
		if parent := g.nodes[n.parent]; parent != nil {
			g.roots = append(g.roots, parent)
		}
		if n.Checkpoint != nil {
			for _, id := range n.Checkpoint.Members {
				g.addRoots(id)
			}
			g.await(n.Checkpoint)
		}
	}
	return len(g.waiting) > 0
}

// Trace follows the kept checkpoints to the objects that they reach, and in an erasure also the checkpoints of deleted
// threads. All kept checkpoints must come first, because an object that a kept checkpoint reaches is not erased.
func (g *Graph) Trace(ctx context.Context) error {
	for _, c := range g.waiting {
		if err := g.trace(ctx, c, g.reached); err != nil {
			return err
		}
	}
	g.waiting = nil
	if g.Erasure == nil {
		return nil
	}
	for _, n := range g.nodes {
		if n.isDeleted && !n.isReachable && n.Checkpoint != nil {
			if err := g.trace(ctx, n.Checkpoint, g.Erasure.objects); err != nil {
				return err
			}
		}
	}
	for _, snapshot := range g.Erasure.states {
		if err := g.trace(ctx, &segno.Checkpoint{Workspace: snapshot}, g.Erasure.objects); err != nil {
			return err
		}
	}
	return nil
}

// trace adds the objects of a checkpoint to a set, unless a kept checkpoint reaches them. The policy follows only
// objects that were not visited before.
func (g *Graph) trace(ctx context.Context, c *segno.Checkpoint, to map[segno.Hash]bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	visit := func(h segno.Hash) bool {
		stored := g.records.ObjectName(h)
		if h.IsZero() || g.reached[stored] || to[stored] {
			return false
		}
		to[stored] = true
		return true
	}
	if g.policy.Trace != nil {
		if err := g.policy.Trace(ctx, g.objects, *c, visit); err != nil {
			return err
		}
	}
	for _, h := range c.Refs() {
		visit(h)
	}
	return nil
}
