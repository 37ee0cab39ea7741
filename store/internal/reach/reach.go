// Package reach finds the commits and objects that only deleted threads reach, for stores that
// erase them.
package reach

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// Node is a commit's place in the tree of all threads.
type Node struct {
	Parent     segno.CommitID
	Deleted    bool              // the thread of the commit is deleted
	Checkpoint *segno.Checkpoint // nil for a commit with only entries
}

// NeedsOthers reports whether c names objects, or commits other than its thread's head, which a
// concurrent erasure may remove.
func NeedsOthers(c *segno.Commit) bool {
	return len(c.Refs()) > 0 || !c.Staged.IsZero() || c.Parent != c.Expect || c.Move != nil || c.Pin != nil || c.Operation != nil
}

// Split decides which nodes an erasure keeps. It keeps a node if its thread is not deleted, or if a kept node, a root
// or a checkpoint of the policy reaches it. The kept checkpoints in the result include those of the policy.
func Split(p *segno.CollectPolicy, nodes map[segno.CommitID]Node, roots []segno.CommitID) (kept []*segno.Checkpoint, gone map[segno.CommitID]Node) {
	for id, n := range nodes {
		if !n.Deleted {
			roots = append(roots, id)
		}
	}
	for i := range p.Checkpoints {
		c := &p.Checkpoints[i]
		roots, kept = append(roots, c.ID, c.Parent), append(kept, c)
	}
	gone = maps.Clone(nodes)
	for len(roots) > 0 {
		id := roots[len(roots)-1]
		roots = roots[:len(roots)-1]
		n, ok := gone[id]
		if !ok {
			continue // it does not exist, or is already kept
		}
		delete(gone, id)
		roots = append(roots, n.Parent)
		if n.Checkpoint != nil {
			kept = append(kept, n.Checkpoint)
			roots = slices.AppendSeq(roots, maps.Values(n.Checkpoint.Members))
		}
	}
	return kept, gone
}

// Checkpoints returns the checkpoints of the nodes that have one.
func Checkpoints(nodes map[segno.CommitID]Node) (all []*segno.Checkpoint) {
	for _, n := range nodes {
		if n.Checkpoint != nil {
			all = append(all, n.Checkpoint)
		}
	}
	return all
}

// Objects returns the objects that checkpoints in gone reach and checkpoints in kept do not reach. The caller removes them in this
// order: an object comes before those through which it was found. So an erasure that is interrupted can be repeated: what
// is left can still be found. Objects that are missing were removed by an earlier erasure.
//
// It returns none if the policy has no Trace.
func Objects(ctx context.Context, o segno.Objects, p *segno.CollectPolicy, kept, gone []*segno.Checkpoint) ([]segno.Hash, error) {
	if p.Trace == nil {
		return nil, nil
	}
	reached := map[segno.Hash]bool{{}: true}
	first := func(h segno.Hash) bool {
		known := reached[h]
		reached[h] = true
		return !known
	}
	if err := Trace(ctx, o, p, kept, first); err != nil {
		return nil, err
	}
	var only []segno.Hash
	for _, c := range gone {
		err := Trace(ctx, o, p, []*segno.Checkpoint{c}, func(h segno.Hash) bool {
			isFirst := first(h)
			if isFirst {
				only = append(only, h)
			}
			return isFirst
		})
		if err != nil && !errors.Is(err, segno.KindNotFound) {
			return nil, err
		}
	}
	slices.Reverse(only)
	return only, nil
}

// Trace calls visit for each object that one of the checkpoints reaches. visit must return false for an object that it
// has already visited.
func Trace(ctx context.Context, o segno.Objects, p *segno.CollectPolicy, of []*segno.Checkpoint, visit func(segno.Hash) bool) error {
	for _, c := range of {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.Trace(ctx, o, *c, visit); err != nil {
			return err
		}
		for _, h := range c.Refs() {
			visit(h)
		}
	}
	return nil
}
