package memory

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Collect implements [segno.Collector]. It reads objects through the policy's
// Trace without the lock; a commit made meanwhile is looked at before anything
// is dropped.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, &collection{CollectPolicy: p, reached: map[segno.Hash]bool{}})
}

// Erase implements [segno.Eraser].
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, &collection{CollectPolicy: p, erase: true, reached: map[segno.Hash]bool{}, erased: map[segno.Hash]bool{}})
}

// collection is one run of Collect or Erase.
type collection struct {
	segno.CollectPolicy
	erase   bool
	reached map[segno.Hash]bool
	erased  map[segno.Hash]bool // objects that only deleted threads reach
}

func (s *Store) collect(ctx context.Context, p *collection) (segno.Collection, error) {
	for seen := -1; ; {
		end, err := s.begin(ctx, "collect")
		if err != nil {
			return segno.Collection{}, err
		}
		kept := s.kept(p)
		if seen == len(s.order) {
			defer end()
			return s.drop(kept, p), nil
		}
		seen = len(s.order)
		roots, deleted := s.traceable(kept, p)
		end()
		if err := p.trace(ctx, s.Objects(), roots, func(h segno.Hash) bool {
			first := !p.reached[h]
			p.reached[h] = true
			return first
		}); err != nil {
			return segno.Collection{}, err
		}
		if err := p.trace(ctx, s.Objects(), deleted, func(h segno.Hash) bool {
			first := !p.reached[h] && !p.erased[h]
			p.erased[h] = true
			return first
		}); err != nil {
			return segno.Collection{}, err
		}
	}
}

// traceable returns copies of the checkpoints that keep objects, and of those whose objects
// an Erase drops at any age. The caller holds the lock.
func (s *Store) traceable(kept map[*commit]bool, p *collection) (roots, deleted []segno.Checkpoint) {
	roots = append(roots, p.Checkpoints...)
	for _, x := range s.order {
		switch {
		case x.Checkpoint == nil:
		case kept[x]:
			roots = append(roots, *copyCheckpoint(x.Checkpoint))
		case p.erase && s.threads[x.Thread].hidden:
			deleted = append(deleted, *copyCheckpoint(x.Checkpoint))
		}
	}
	for _, w := range s.workspaces {
		c := segno.Checkpoint{Workspace: copySnapshot(w.record.State.Snapshot)}
		if t := s.threads[w.record.State.Thread]; p.erase && t != nil && t.hidden {
			deleted = append(deleted, c)
		} else {
			roots = append(roots, c)
		}
	}
	return roots, deleted
}

func (p *collection) trace(ctx context.Context, o segno.Objects, all []segno.Checkpoint, visit func(segno.Hash) bool) error {
	for i := range all {
		if p.Trace != nil {
			if err := p.Trace(ctx, o, all[i], visit); err != nil {
				return err
			}
		}
		for _, h := range all[i].Refs() {
			visit(h)
		}
	}
	return nil
}

// kept are the nodes that heads, tips, lines, pins, operations and the policy
// reach.
func (s *Store) kept(p *collection) map[*commit]bool {
	amended := map[segno.CommitID]bool{}
	for _, x := range s.order {
		if x.Checkpoint != nil && !s.threads[x.Thread].hidden {
			amended[x.Checkpoint.Amends] = true
		}
	}
	kept := map[*commit]bool{}
	var keep func(id segno.CommitID)
	keep = func(id segno.CommitID) {
		for x := s.commits[id]; x != nil && x.node && !kept[x]; x = s.commits[x.Parent] {
			kept[x] = true
			if x.Checkpoint != nil {
				for _, member := range x.Checkpoint.Members {
					keep(member)
				}
			}
		}
	}
	for _, x := range s.order {
		if !s.threads[x.Thread].hidden && !amended[x.ID] && p.Retain.Keeps(s.checkpointAt(x)) {
			keep(x.ID)
		}
	}
	for _, t := range s.threads {
		if !t.hidden {
			keep(t.head.Head)
			keep(t.head.Tip)
		}
	}
	for id := range s.pins {
		keep(id)
	}
	for _, o := range s.log {
		if t := s.threads[o.Thread]; (t == nil || !t.hidden) && p.Retain.KeepsOperation(&o) {
			for _, id := range []segno.CommitID{o.Before.Head, o.Before.Tip, o.After.Head, o.After.Tip} {
				keep(id)
			}
		}
	}
	for _, c := range p.Checkpoints {
		keep(c.ID)
		keep(c.Parent)
	}
	return kept
}

// checkpointAt is the newest checkpoint at or before a commit, or nil.
func (s *Store) checkpointAt(x *commit) *segno.Checkpoint {
	for ; x != nil; x = s.commits[x.Parent] {
		if x.Checkpoint != nil {
			return x.Checkpoint
		}
	}
	return nil
}

// drop takes out of the tree what is not kept; of a commit its id and result stay.
func (s *Store) drop(kept map[*commit]bool, p *collection) (done segno.Collection) {
	for _, x := range s.order {
		if !x.node || kept[x] {
			continue
		}
		if x.Checkpoint != nil {
			done.Checkpoints++
		}
		if !p.DryRun && x.remember() == nil {
			x.node, x.Checkpoint, x.Entries = false, nil, nil
		}
	}
	old := s.clock().Add(-time.Hour)
	for h, o := range s.objects {
		if p.reached[h] || p.Trace == nil || o.born.After(old) && !p.erased[h] {
			done.Kept++
			continue
		}
		done.Objects++
		done.Bytes += int64(len(o.data))
		if !p.DryRun {
			delete(s.objects, h)
		}
	}
	if p.erase && !p.DryRun {
		s.eraseDeleted()
	}
	return done
}

// eraseDeleted removes what is beside the tree of deleted threads.
func (s *Store) eraseDeleted() {
	hidden := func(id segno.ThreadID) bool { t := s.threads[id]; return t != nil && t.hidden }
	for id, t := range s.threads {
		if t.hidden {
			t.Thread, t.links, t.link, t.lease, t.head.Link = segno.Thread{ID: id}, nil, 0, segno.Lease{}, segno.Link{}
		}
	}
	for _, x := range s.order {
		if hidden(x.Thread) {
			x.result.Link = segno.Link{}
		}
	}
	s.log = slices.DeleteFunc(s.log, func(o segno.Operation) bool { return hidden(o.Thread) })
	for id, w := range s.workspaces {
		if hidden(w.record.State.Thread) {
			w.record.State = segno.WorkspaceState{Workspace: id}
		}
	}
}
