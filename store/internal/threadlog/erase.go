package threadlog

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/internal/reach"
)

// removal is the plan of an erasure or a collection.
type removal struct {
	erase   bool      // also remove the records of deleted threads that are not nodes
	threads []*Thread // the threads whose logs are written again
	deleted map[segno.ThreadID]bool
	pins    map[segno.CommitID]string // the pins that stay
	gone    map[segno.CommitID]reach.Node

	kept []*segno.Checkpoint // the checkpoints whose objects stay
	lost []*segno.Checkpoint // an erasure removes the objects of these, unless kept reaches them, too
}

// Erase implements [segno.Eraser]. It removes the content of deleted threads that no other thread, pin or operation
// reaches. Commits that a fork of a deleted thread reaches stay in the deleted thread's log. Erase does nothing while a
// log is damaged, because it does not know which commits the thread of that log reaches.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.remove(ctx, "erase", &p, true, func(r *removal) (func() []segno.Hash, error) {
		only, err := reach.Objects(ctx, s.Objects(), &p, r.kept, r.lost)
		return func() []segno.Hash { return only }, err
	})
}

// Collect implements [segno.Collector] on s. unreached returns the objects that are not in reached and are old enough
// to be removed. Collect holds the index while it calls unreached. Collect does not count the objects that stay.
func Collect(
	ctx context.Context, s *Store, p segno.CollectPolicy, unreached func(reached map[segno.Hash]bool) []segno.Hash,
) (segno.Collection, error) {
	return s.remove(ctx, "collect", &p, false, func(r *removal) (func() []segno.Hash, error) {
		if p.Trace == nil {
			return func() []segno.Hash { return nil }, nil
		}
		reached := map[segno.Hash]bool{}
		err := reach.Trace(ctx, s.Objects(), &p, r.kept, func(h segno.Hash) bool {
			first := !reached[h]
			reached[h] = true
			return first
		})
		return func() []segno.Hash { return unreached(reached) }, err
	})
}

// remove plans a removal and carries it out. The policy's Trace reads many objects, so remove does not hold the index
// while it chooses the objects. If another call appends a record in the meantime, its commit may refer to a node or an
// object that the plan removes. Then remove plans again.
func (s *Store) remove(
	ctx context.Context, op string, p *segno.CollectPolicy, erase bool, choose func(*removal) (objects func() []segno.Hash, err error),
) (done segno.Collection, err error) {
	for {
		var order int64
		r, err := view(ctx, s, op, "", func(x *Index) (*removal, error) {
			order = x.Order
			return x.plan(p, erase), errors.Join(x.damage()...)
		})
		if err != nil {
			return done, err
		}
		objects, err := choose(r)
		if err != nil {
			return done, Fail(op, "", err)
		}
		write := !p.DryRun && (!erase || len(r.threads) > 0) // if no thread is deleted, there is nothing to erase
		x, leave, err := s.enter(ctx, op, write)
		if err != nil {
			return done, err
		}
		if x.Order == order {
			done, err = s.removeNow(r, objects(), !write)
			leave()
			return done, Fail(op, "", err)
		}
		leave()
	}
}

// removeNow carries out a removal. If dryRun is set, it only counts what it would remove. It rewrites the logs last,
// because they lead to the objects that an interrupted removal leaves.
func (s *Store) removeNow(r *removal, objects []segno.Hash, dryRun bool) (done segno.Collection, err error) {
	done.Checkpoints = len(reach.Checkpoints(r.gone))
	done.Objects, done.Bytes, err = s.logs.RemoveObjects(objects, dryRun)
	if err == nil && !dryRun {
		err = s.logs.Rewrite(r.threads, r.strip)
	}
	return done, err
}

// plan decides which commits stay and which are removed. A commit stays if its thread is not deleted, or if a head, a
// tip, a pin, an operation, a member or the policy reaches it. A collection also drops commits of threads that are not
// deleted, see [dropAbandoned].
func (x *Index) plan(p *segno.CollectPolicy, erase bool) *removal {
	r := &removal{erase: erase, deleted: map[segno.ThreadID]bool{}, pins: map[segno.CommitID]string{}}
	nodes := map[segno.CommitID]reach.Node{}
	var roots []segno.CommitID
	for _, t := range x.Threads {
		if t.Deleted {
			r.deleted[t.created.ID] = true
		} else {
			roots = append(roots, t.Head.Head, t.Tip)
		}
		if t.Deleted || !erase {
			r.threads = append(r.threads, t)
		}
		for _, c := range t.commits {
			if c.isNode {
				nodes[c.ID] = reach.Node{Parent: c.Parent, Deleted: t.Deleted, Checkpoint: c.Checkpoint}
			}
		}
	}
	for id, pin := range x.pins {
		if pin.value != "" {
			roots, r.pins[id] = append(roots, id), pin.value
		}
	}
	for _, o := range x.operations {
		if !r.deleted[o.value.Thread] && p.Retain.KeepsOperation(&o.value) {
			roots = append(roots, o.value.Before.Head, o.value.Before.Tip, o.value.After.Head, o.value.After.Tip)
		}
	}
	if !erase {
		dropAbandoned(p, nodes)
	}
	r.kept, r.gone = reach.Split(p, nodes, roots)
	r.lost = reach.Checkpoints(r.gone)
	x.planStates(r)
	return r
}

// planStates adds the snapshots of the workspaces to r. A collection keeps all of them. An erasure drops the snapshots
// of deleted threads, so the next capture of such a workspace scans it again.
func (x *Index) planStates(r *removal) {
	for _, w := range x.states {
		c := &segno.Checkpoint{Workspace: w.value.Snapshot}
		if r.erase && r.deleted[w.value.Thread] {
			r.lost = append(r.lost, c)
		} else {
			r.kept = append(r.kept, c)
		}
	}
}

// dropAbandoned treats amended nodes, and nodes that the policy does not retain, as nodes of a deleted thread. They
// stay only if other nodes or roots reach them.
func dropAbandoned(p *segno.CollectPolicy, nodes map[segno.CommitID]reach.Node) {
	amended := map[segno.CommitID]bool{}
	for _, n := range nodes {
		if n.Checkpoint != nil && !n.Deleted {
			amended[n.Checkpoint.Amends] = true
		}
	}
	for id, n := range nodes {
		at := n
		for at.Checkpoint == nil && at.Parent != "" {
			at = nodes[at.Parent]
		}
		n.Deleted = n.Deleted || amended[id] || !p.Retain.Keeps(at.Checkpoint)
		nodes[id] = n
	}
}

// strip removes the content of a commit that the removal drops. The commit's id and digest stay, so that a writer
// cannot make the commit again. A workspace's state stays, but without content, because it replaces older states.
func (r *removal) strip(c *CommitRecord) {
	if _, gone := r.gone[c.ID]; gone {
		c.Checkpoint, c.Entries, c.Needs = nil, 0, nil
	}
	if !r.erase {
		return
	}
	if t := c.Create; t != nil {
		c.Create = &segno.Thread{ID: t.ID, Created: t.Created, Parent: t.Parent}
	}
	c.Link = nil
	if c.Operation != nil && r.deleted[c.Operation.Thread] {
		c.Operation = nil
	}
	if w := c.Workspace; w != nil && r.deleted[w.Thread] {
		c.Workspace = &segno.WorkspaceState{Workspace: w.Workspace}
	}
	if c.Pin != nil && r.pins[c.Pin.Checkpoint] != c.Pin.Name {
		c.Pin = &segno.Pin{Checkpoint: c.Pin.Checkpoint}
	}
}
