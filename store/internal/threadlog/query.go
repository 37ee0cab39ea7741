package threadlog

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/phase"
)

// fresh returns a thread that exists, is not deleted, and whose log can be read.
func (s *Store) fresh(x *Index, op string, id segno.ThreadID) (*Thread, error) {
	t := x.Threads[x.name(id)]
	if t == nil {
		return nil, notFound(op, string(id))
	}
	err := t.Damage
	if err == nil {
		err = s.logs.Check(t)
	}
	if err == nil && (!t.Exists || t.Deleted) {
		err = notFound(op, string(id))
	}
	return t, err
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	const op = "read head"
	return view(ctx, s, op, string(id), func(x *Index) (segno.Head, error) {
		t, err := s.fresh(x, op, id)
		if err != nil {
			return segno.Head{}, err
		}
		return cloneHead(t.Head), nil
	})
}

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if err := ledger.CheckWindow(at, w); err != nil {
		return nil, err
	}
	var used *Index
	path, err := view(ctx, s, op, string(at), func(x *Index) ([]*Commit, error) {
		used = x
		return x.path(at, w.Last)
	})
	if err != nil {
		return nil, err
	}
	line := &segno.Line{Commits: make([]segno.Node, len(path))}
	for i, c := range path {
		line.Commits[i] = c.Node
		line.Commits[i].Checkpoint = Clone(c.Checkpoint)
	}
	if !w.Entries {
		return line, nil
	}
	// Load reads the entries without holding the index, because they may be long. This is safe: only an erasure changes
	// a commit, and it replaces the index.
	if err := s.logs.ReadEntries(ctx, path, line.Commits); err != nil {
		replaced, newErr := view(ctx, s, op, string(at), func(x *Index) (bool, error) { return x != used, nil })
		if replaced || newErr != nil { // an erasure replaced the logs in the meantime
			return s.Load(ctx, at, w)
		}
		return nil, Fail(op, string(at), err)
	}
	return line, nil
}

// path returns the newest commits, oldest first, of the line that ends at a node. If last is 0, it returns all commits
// of the line.
func (x *Index) path(at segno.CommitID, last int) (path []*Commit, err error) {
	for id := at; len(path) == 0 || id != "" && (last == 0 || len(path) < last); {
		c, err := x.find(id)
		if err == nil && !c.isNode {
			err = notFound("load", string(id))
		}
		if err != nil {
			return nil, err
		}
		path, id = append(path, c), c.Parent
	}
	slices.Reverse(path)
	return path, nil
}

// Checkpoints implements [segno.Store]. If threads are damaged, it yields the checkpoints of the
// others first, and then an error for each.
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	const op = "list checkpoints"
	return list(ctx, s, op, q.Thread == "", func(x *Index) (found []segno.Checkpoint, err error) {
		if err := ledger.CheckQuery(&q); err != nil {
			return nil, err
		}
		threads := x.Threads
		if q.Thread != "" {
			t, err := s.fresh(x, op, q.Thread)
			if err != nil {
				return nil, ignoreNotFound(err)
			}
			threads = map[string]*Thread{"": t}
		}
		var matches []*Commit
		for _, t := range threads {
			matches = append(matches, x.matching(t, &q)...)
		}
		slices.SortFunc(matches, func(a, b *Commit) int {
			return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.Thread, b.Thread), cmp.Compare(b.Seq, a.Seq))
		})
		for _, m := range limited(matches, q.Limit) {
			c := Clone(*m.Checkpoint)
			if q.Pinned {
				c.Label = x.pins[m.ID].value
			}
			found = append(found, c)
		}
		return found, nil
	})
}

// matching returns the newest commits of a thread whose checkpoints match q, up to q's limit.
func (x *Index) matching(t *Thread, q *segno.CheckpointQuery) (found []*Commit) {
	if t.Deleted {
		return nil
	}
	commits := t.commits
	if q.Before > 0 {
		commits = commits[:min(int64(len(commits)), q.Before-1)]
	}
	for _, c := range slices.Backward(commits) {
		if c.Checkpoint != nil && q.Matches(c.Checkpoint) && (!q.Pinned || x.pins[c.ID].value != "") {
			found = append(found, c)
			if len(found) == q.Limit {
				break
			}
		}
	}
	return found
}

// Threads implements [segno.Store]. If threads are damaged, it yields the others first, and then
// an error for each.
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	if q.Phase != segno.PhaseUnknown && phase.Check(&q) == nil {
		return phase.Threads(ctx, s, phaseIndex{s}, q)
	}
	return list(ctx, s, "list threads", true, func(x *Index) (found []segno.Thread, err error) {
		if err := phase.Check(&q); err != nil {
			return nil, err
		}
		threads := x.intact(func(t *Thread) bool {
			inChain := func(l segno.Link) bool { return l.Session == q.Session }
			return q.Matches(&t.created) && (q.Session == "" || slices.ContainsFunc(t.links, inChain))
		})
		slices.SortFunc(threads, func(a, b *Thread) int {
			return cmp.Or(cmp.Compare(b.changed, a.changed), cmp.Compare(a.created.ID, b.created.ID))
		})
		for _, t := range limited(threads, q.Limit) {
			found = append(found, t.created)
		}
		return found, nil
	})
}

// intact returns the matching threads that are neither deleted nor damaged.
func (x *Index) intact(match func(*Thread) bool) (found []*Thread) {
	for _, t := range x.Threads {
		if t.Exists && !t.Deleted && t.Damage == nil && match(t) {
			found = append(found, t)
		}
	}
	return found
}

func limited[T any](all []T, limit int) []T {
	if limit > 0 && len(all) > limit {
		return all[:limit]
	}
	return all
}

func ignoreNotFound(err error) error {
	if errors.Is(err, segno.KindNotFound) {
		return nil
	}
	return err
}

// phaseIndex implements [phase.Index] for the threads in memory.
type phaseIndex struct{ s *Store }

func (i phaseIndex) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, _ int) ([]phase.Found, error) {
	var damage []error
	found, err := view(ctx, i.s, "list threads", "", func(x *Index) (found []phase.Found, err error) {
		damage = x.damage()
		for _, t := range x.intact(func(t *Thread) bool { return t.Phase == p || t.Phase == segno.PhaseUnknown }) {
			if t.created.ID > after {
				found = append(found, phase.Found{Thread: t.created, Phase: t.Phase, Head: t.Head.Head, Seq: t.Seq})
			}
		}
		slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
		return found, nil
	})
	return found, errors.Join(append(damage, err)...)
}

// Remember keeps the phase only in memory. The next commit that changes the phase writes it to the
// log.
func (i phaseIndex) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	_, err := view(ctx, i.s, "list threads", "", func(x *Index) (none struct{}, err error) {
		if t := x.Threads[x.name(f.Thread.ID)]; t != nil && t.Seq == f.Seq {
			t.Phase = p
		}
		return none, nil
	})
	return err
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, id segno.ThreadID) iter.Seq2[segno.Link, error] {
	const op = "read chain"
	return list(ctx, s, op, false, func(x *Index) ([]segno.Link, error) {
		t, err := s.fresh(x, op, id)
		if err != nil {
			return nil, err
		}
		return Clone(t.links), nil
	})
}
