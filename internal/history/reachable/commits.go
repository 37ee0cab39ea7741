package reachable

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// Thread is a thread with its commits and their ancestors in other threads. The commits have no entries. A commit with
// entries alone that neither the head, the tip nor a checkpoint follows is not found, because a store does not list it.
type Thread struct {
	Head  segno.Head
	Nodes map[segno.CommitID]*segno.Node
}

// Commits reads a thread.
func Commits(ctx context.Context, s segno.Store, thread segno.ThreadID) (*Thread, error) {
	head, err := s.Head(ctx, thread)
	if err != nil {
		return nil, err
	}
	t := &Thread{Head: head, Nodes: map[segno.CommitID]*segno.Node{}}
	if err := t.addLine(ctx, s, head.Head, 0); err != nil {
		return nil, err
	}
	if err := t.addLine(ctx, s, head.Tip, 16); err != nil {
		return nil, err
	}
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err == nil {
			err = t.addLine(ctx, s, c.ID, 16)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, t.checkParents()
}

// checkParents returns an error if a commit is among its own ancestors, as a hostile server may claim.
func (t *Thread) checkParents() error {
	ends := map[segno.CommitID]bool{} // commits with a line that ends at a first commit
	for id := range t.Nodes {
		var line []segno.CommitID
		seen := map[segno.CommitID]bool{}
		for at := t.Nodes[id]; at != nil && !ends[at.ID]; at = t.Nodes[at.Parent] {
			if seen[at.ID] {
				return segno.Errorf(segno.KindCorrupt, "read thread", string(t.Head.Thread), "the commit %s is its own ancestor", at.ID)
			}
			seen[at.ID], line = true, append(line, at.ID)
		}
		for _, id := range line {
			ends[id] = true
		}
	}
	return nil
}

// addLine adds the line of a commit, down to the first commit that t already has. If window is not 0, it first loads
// only so many commits.
func (t *Thread) addLine(ctx context.Context, s segno.Store, at segno.CommitID, window int) error {
	if at == "" || t.Nodes[at] != nil {
		return nil
	}
	if window == 0 {
		line, err := s.Load(ctx, at, segno.Window{})
		if err != nil {
			return err
		}
		for i := range line.Commits {
			t.Nodes[line.Commits[i].ID] = &line.Commits[i]
		}
		return nil
	}
	for n, err := range segno.Ancestors(ctx, s, at, segno.Window{Last: window}) {
		if err != nil {
			return err
		}
		if t.Nodes[n.ID] != nil {
			return nil
		}
		t.Nodes[n.ID] = n
	}
	return nil
}

// Order returns the commits in order of arrival. Commits of other threads come before the first commit that follows
// them.
func (t *Thread) Order() (order []*segno.Node) {
	own := slices.SortedFunc(maps.Values(t.Nodes), func(a, b *segno.Node) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID))
	})
	done := map[segno.CommitID]bool{"": true}
	for _, n := range own {
		if n.Thread != t.Head.Thread {
			continue
		}
		var line []*segno.Node
		for at := n; at != nil && !done[at.ID]; at = t.Nodes[at.Parent] {
			line = append(line, at)
			done[at.ID] = true
		}
		slices.Reverse(line)
		order = append(order, line...)
	}
	return order
}

// Contains reports whether a commit is on the line of another one: the same, or an ancestor. An empty id is on every
// line.
func (t *Thread) Contains(line, id segno.CommitID) bool {
	if id == "" {
		return true
	}
	for at := t.Nodes[line]; at != nil; at = t.Nodes[at.Parent] {
		if at.ID == id {
			return true
		}
	}
	return false
}
