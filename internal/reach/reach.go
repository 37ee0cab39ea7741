// Package reach finds the commits and objects that only deleted threads reach, for stores that erase them.
package reach

import (
	"context"

	"github.com/dalsegno/segno"
)

// Node is a commit's place in the tree of all threads.
type Node struct {
	Parent     segno.CommitID
	Deleted    bool              // its thread is deleted
	Checkpoint *segno.Checkpoint // nil for a commit of entries alone
}

// NeedsOthers reports whether c names records that an erasure may be removing: objects, or commits
// other than its thread's head.
func NeedsOthers(c *segno.Commit) bool {
	return len(c.Refs()) > 0 || !c.Staged.IsZero() || c.Parent != c.Expect || c.Move != nil || c.Pin != nil || c.Operation != nil
}

// Split divides nodes into those that the nodes of other threads or the roots reach, and
// those that only deleted threads reach.
func Split(nodes map[segno.CommitID]Node, roots []segno.CommitID) (kept, gone map[segno.CommitID]Node) {
	kept, gone = map[segno.CommitID]Node{}, map[segno.CommitID]Node{}
	for id, n := range nodes {
		if !n.Deleted {
			roots = append(roots, id)
		}
	}
	for len(roots) > 0 {
		id := roots[len(roots)-1]
		roots = roots[:len(roots)-1]
		n, ok := nodes[id]
		if _, seen := kept[id]; seen || !ok {
			continue
		}
		kept[id] = n
		roots = append(roots, n.Parent)
		if n.Checkpoint != nil {
			for _, member := range n.Checkpoint.Members {
				roots = append(roots, member)
			}
		}
	}
	for id, n := range nodes {
		if _, ok := kept[id]; !ok {
			gone[id] = n
		}
	}
	return kept, gone
}

// Checkpoints returns the checkpoints of nodes.
func Checkpoints(nodes map[segno.CommitID]Node) (all []*segno.Checkpoint) {
	for _, n := range nodes {
		if n.Checkpoint != nil {
			all = append(all, n.Checkpoint)
		}
	}
	return all
}

// Objects returns the objects that the checkpoints in gone reach and those in kept do not.
// It returns none if the policy has no Trace.
func Objects(ctx context.Context, o segno.Objects, p *segno.CollectPolicy, kept, gone []*segno.Checkpoint) (map[segno.Hash]bool, error) {
	reached, only := map[segno.Hash]bool{{}: true}, map[segno.Hash]bool{}
	if p.Trace == nil {
		return only, nil
	}
	trace := func(all []*segno.Checkpoint, to map[segno.Hash]bool) error {
		visit := func(h segno.Hash) bool {
			if reached[h] || to[h] {
				return false
			}
			to[h] = true
			return true
		}
		for _, c := range all {
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
	if err := trace(kept, reached); err != nil {
		return nil, err
	}
	return only, trace(gone, only)
}
