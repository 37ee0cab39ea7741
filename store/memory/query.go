package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
)

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, segno.Errorf(segno.KindInvalid, op, string(at), "the window is negative")
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	line := new(segno.Line)
	for id := at; id != "" && (w.Last == 0 || len(line.Commits) < w.Last); {
		x := s.commits[id]
		if x == nil || !x.node {
			return nil, notFound(op, string(id))
		}
		n := x.Node
		n.Checkpoint, n.Entries = copyCheckpoint(n.Checkpoint), nil
		if w.Entries {
			n.Entries = copyEntries(x.Entries)
		}
		line.Commits = append(line.Commits, n)
		id = x.Parent
	}
	if len(line.Commits) == 0 {
		return nil, notFound(op, string(at))
	}
	slices.Reverse(line.Commits)
	return line, nil
}

// sequence calls all with the lock held and yields what it returns without.
func sequence[T any](ctx context.Context, s *Store, op string, all func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		end, err := s.begin(ctx, op)
		if err != nil {
			yield(none, err)
			return
		}
		found, err := all()
		end()
		if err != nil {
			yield(none, err)
			return
		}
		for _, x := range found {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// Checkpoints implements [segno.Store].
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	return sequence(ctx, s, "list checkpoints", func() (found []segno.Checkpoint, err error) {
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			return nil, segno.Errorf(segno.KindInvalid, "list checkpoints", "", "before needs a thread, and neither it nor limit is negative")
		}
		for _, x := range slices.Backward(s.order) {
			if q.Limit > 0 && len(found) == q.Limit {
				break
			}
			name, pinned := s.pins[x.ID]
			if x.Checkpoint == nil || s.threads[x.Thread].hidden || q.Pinned && !pinned || !q.Matches(x.Checkpoint) {
				continue
			}
			c := copyCheckpoint(x.Checkpoint)
			if q.Pinned {
				c.Label = name
			}
			found = append(found, *c)
		}
		return found, nil
	})
}

// Threads implements [segno.Store].
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	if q.Phase != segno.PhaseUnknown && phase.Check(&q) == nil {
		return phase.Threads(ctx, s, index{s}, q)
	}
	return sequence(ctx, s, "list threads", func() ([]segno.Thread, error) {
		if err := phase.Check(&q); err != nil {
			return nil, err
		}
		var found []*thread
		for _, t := range s.threads {
			inChain := slices.ContainsFunc(t.links, func(l segno.Link) bool { return l.Session == q.Session })
			if !t.hidden && (q.Session == "" || inChain) && q.Matches(&t.Thread) {
				found = append(found, t)
			}
		}
		slices.SortFunc(found, func(a, b *thread) int { return b.changed - a.changed })
		if q.Limit > 0 && len(found) > q.Limit {
			found = found[:q.Limit]
		}
		out := make([]segno.Thread, len(found))
		for i, t := range found {
			out[i] = t.Thread
		}
		return out, nil
	})
}

// index finds threads by phase: [phase.Index].
type index struct{ s *Store }

func (x index) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, _ int) (found []phase.Found, err error) {
	end, err := x.s.begin(ctx, "list threads")
	if err != nil {
		return nil, err
	}
	defer end()
	for _, part := range []segno.Phase{segno.PhaseUnknown, p} {
		for id, t := range x.s.phases[part] {
			if id > after {
				found = append(found, phase.Found{Thread: t.Thread, Phase: t.phase, Head: t.head.Head, Seq: t.head.Seq})
			}
		}
	}
	slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
	return found, nil
}

func (x index) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	end, err := x.s.begin(ctx, "list threads")
	if err != nil {
		return err
	}
	defer end()
	if t := x.s.threads[f.Thread.ID]; t != nil && !t.hidden && t.head.Seq == f.Seq {
		x.s.setPhase(t, p)
	}
	return nil
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, id segno.ThreadID) iter.Seq2[segno.Link, error] {
	return sequence(ctx, s, "read chain", func() ([]segno.Link, error) {
		t, err := s.thread("read chain", id)
		if err != nil {
			return nil, err
		}
		return slices.Clone(t.links), nil
	})
}

// Workspace implements [segno.Workspaces].
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	end, err := s.begin(ctx, "read workspace")
	if err != nil {
		return segno.WorkspaceRecord{}, err
	}
	defer end()
	w := s.workspaces[id]
	if w == nil || !w.known {
		return segno.WorkspaceRecord{}, notFound("read workspace", string(id))
	}
	return copyRecord(w.record), nil
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	all := len(paths) == 0 && inode == 0
	return sequence(ctx, s, "find workspaces", func() (found []segno.WorkspaceRecord, err error) {
		for _, w := range s.workspaces {
			r := &w.record
			if w.known && (all || slices.Contains(paths, r.Path) || inode != 0 && r.Inode == inode && r.Device == device) {
				found = append(found, copyRecord(*r))
			}
		}
		slices.SortFunc(found, func(a, b segno.WorkspaceRecord) int {
			return cmp.Or(len(b.Path)-len(a.Path), strings.Compare(string(a.ID), string(b.ID)))
		})
		return found, nil
	})
}

// PutWorkspace implements [segno.Workspaces].
func (s *Store) PutWorkspace(ctx context.Context, r segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(r.ID)); err != nil {
		return err
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	w := s.workspaces[r.ID]
	if w == nil {
		w = new(workspace)
		s.workspaces[r.ID] = w
	}
	state := w.record.State
	w.known, w.record = true, copyRecord(r)
	w.record.State = state
	return nil
}

// Operations implements [segno.Workspaces].
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return sequence(ctx, s, "read operations", func() (found []segno.Operation, err error) {
		for _, o := range slices.Backward(s.log) {
			if o.Workspace == id {
				found = append(found, copyOperation(o))
			}
		}
		return found, nil
	})
}
