package memory

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// Collect implements [segno.Collector]. It reads objects through the policy's
// Trace without the lock; a commit made meanwhile is looked at before anything
// is dropped.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	reached := map[segno.Hash]bool{}
	visit := func(h segno.Hash) bool {
		first := !reached[h]
		reached[h] = true
		return first
	}
	for seen := -1; ; {
		end, err := s.begin(ctx, "collect")
		if err != nil {
			return segno.Collection{}, err
		}
		kept := s.kept(p)
		if seen == len(s.order) {
			defer end()
			return s.drop(kept, reached, p), nil
		}
		seen = len(s.order)
		roots := append([]segno.Checkpoint(nil), p.Checkpoints...)
		for x := range kept {
			if x.Checkpoint != nil {
				roots = append(roots, *copyCheckpoint(x.Checkpoint))
			}
		}
		for _, w := range s.workspaces {
			roots = append(roots, segno.Checkpoint{Workspace: copySnapshot(w.record.State.Snapshot)})
		}
		end()
		for i := range roots {
			if p.Trace != nil {
				if err := p.Trace(ctx, s.Objects(), roots[i], visit); err != nil {
					return segno.Collection{}, err
				}
			}
			for _, h := range roots[i].Refs() {
				visit(h)
			}
		}
	}
}

// kept are the nodes that heads, tips, lines, pins, operations and the policy
// reach.
func (s *Store) kept(p segno.CollectPolicy) map[*commit]bool {
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
		if !s.threads[x.Thread].hidden && !amended[x.ID] {
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
		if t := s.threads[o.Thread]; t == nil || !t.hidden {
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

// drop takes out of the tree what is not kept; of a commit its id and result stay.
func (s *Store) drop(kept map[*commit]bool, reached map[segno.Hash]bool, p segno.CollectPolicy) (done segno.Collection) {
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
		if reached[h] || p.Trace == nil || o.born.After(old) {
			done.Kept++
			continue
		}
		done.Objects++
		done.Bytes += int64(len(o.data))
		if !p.DryRun {
			delete(s.objects, h)
		}
	}
	return done
}
