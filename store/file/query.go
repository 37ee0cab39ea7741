package file

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
	"github.com/dalsegno/segno/internal/phase"
)

// find returns a commit. If it does not exist, but some log is damaged, the commit may be in there,
// and the error is about that log.
func (x *index) find(id segno.CommitID) (*commit, error) {
	if c := x.commits[id]; c != nil {
		return c, nil
	}
	return nil, append(x.damage(), notFound("find commit", string(id)))[0]
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	const op = "read head"
	return view(ctx, s, op, func() (segno.Head, error) {
		t, err := s.fresh(op, id)
		if err != nil {
			return segno.Head{}, err
		}
		return cloneHead(t.Head), nil
	})
}

// Wait implements [segno.Watcher]. It returns at once after a commit of this Store, and at most a
// quarter of a second after another process's.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.notifier.Wait(ctx, thread, after, s.Head, notify.Poll())
}

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, segno.Errorf(segno.KindInvalid, op, string(at), "the window is negative")
	}
	var used *index
	path, err := view(ctx, s, op, func() (path []*commit, err error) {
		used = s.index
		for id := at; len(path) == 0 || id != "" && (w.Last == 0 || len(path) < w.Last); {
			x, err := s.index.find(id)
			if err != nil {
				return nil, err
			}
			if !x.isNode {
				return nil, notFound(op, string(id))
			}
			path, id = append(path, x), x.Parent
		}
		slices.Reverse(path)
		return path, nil
	})
	if err != nil {
		return nil, err
	}
	line := &segno.Line{Commits: make([]segno.Node, len(path))}
	for i, x := range path {
		line.Commits[i] = x.Node
		line.Commits[i].Checkpoint = clone(x.Checkpoint)
	}
	if !w.Entries {
		return line, nil
	}
	if err := readEntries(ctx, path, line.Commits); err != nil {
		replaced, newErr := view(ctx, s, op, func() (bool, error) { return s.index != used, nil })
		if replaced || newErr != nil { // an erasure has replaced the logs meanwhile
			return s.Load(ctx, at, w)
		}
		return nil, fail(op, string(at), err)
	}
	return line, nil
}

// readEntries fills in the nodes' entries.
func readEntries(ctx context.Context, path []*commit, nodes []segno.Node) error {
	logs := map[*thread]*os.File{}
	defer func() {
		for _, log := range logs {
			log.Close() // only read
		}
	}()
	for i, x := range path {
		if x.entries == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		log := logs[x.log]
		if log == nil {
			var err error
			if log, err = os.Open(x.log.log()); err != nil {
				return err
			}
			logs[x.log] = log
		}
		line := make([]byte, x.end-x.at)
		if _, err := log.ReadAt(line, x.at); err != nil && err != io.EOF {
			return err
		}
		var err error
		if nodes[i].Entries, err = decodeEntries(line); err != nil {
			return corrupt(string(x.ID), err)
		}
	}
	return nil
}

// list calls all when the iteration begins, with the index locked, and yields the values that all
// returns. With damaged it then yields an error for each thread that cannot be read and may have more.
func list[T any](ctx context.Context, s *Store, op string, damaged bool, all func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var errs []error
		found, err := view(ctx, s, op, func() ([]T, error) {
			if damaged {
				errs = s.index.damage()
			}
			return all()
		})
		if err != nil {
			errs = []error{err}
		}
		for _, x := range found {
			if !yield(x, nil) {
				return
			}
		}
		for _, err := range errs {
			var none T
			if !yield(none, err) {
				return
			}
		}
	}
}

// Checkpoints implements [segno.Store]. If threads are damaged, it yields the checkpoints of the
// others first, and then an error for each.
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	const op = "list checkpoints"
	return list(ctx, s, op, q.Thread == "", func() (found []segno.Checkpoint, err error) {
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			return nil, segno.Errorf(segno.KindInvalid, op, "", "before needs a thread, and neither it nor limit is negative")
		}
		threads := s.index.threads
		if q.Thread != "" {
			t, err := s.fresh(op, q.Thread)
			if err != nil {
				return nil, ignoreNotFound(err)
			}
			threads = map[string]*thread{"": t}
		}
		var matches []*commit
		for _, t := range threads {
			matches = append(matches, s.matching(t, &q)...)
		}
		slices.SortFunc(matches, func(a, b *commit) int {
			return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.Thread, b.Thread), cmp.Compare(b.Seq, a.Seq))
		})
		for _, x := range limited(matches, q.Limit) {
			c := clone(*x.Checkpoint)
			if q.Pinned {
				c.Label = s.index.pins[x.ID].value
			}
			found = append(found, c)
		}
		return found, nil
	})
}

// matching returns the newest commits of a thread whose checkpoints q matches, up to q's limit.
func (s *Store) matching(t *thread, q *segno.CheckpointQuery) (found []*commit) {
	if t.Deleted {
		return nil
	}
	commits := t.commits
	if q.Before > 0 {
		commits = commits[:min(int64(len(commits)), q.Before-1)]
	}
	for _, x := range slices.Backward(commits) {
		if x.Checkpoint != nil && q.Matches(x.Checkpoint) && (!q.Pinned || s.index.pins[x.ID].value != "") {
			found = append(found, x)
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
	return list(ctx, s, "list threads", true, func() (found []segno.Thread, err error) {
		if err := phase.Check(&q); err != nil {
			return nil, err
		}
		threads := s.intact(func(t *thread) bool {
			inChain := func(l segno.Link) bool { return l.Session == q.Session }
			return q.Matches(&t.created) && (q.Session == "" || slices.ContainsFunc(t.links, inChain))
		})
		slices.SortFunc(threads, func(a, b *thread) int {
			return cmp.Or(cmp.Compare(b.changed, a.changed), cmp.Compare(a.created.ID, b.created.ID))
		})
		for _, t := range limited(threads, q.Limit) {
			found = append(found, t.created)
		}
		return found, nil
	})
}

// intact returns the threads that are neither deleted nor damaged and that match.
func (s *Store) intact(match func(*thread) bool) (found []*thread) {
	for _, t := range s.index.threads {
		if t.Exists && !t.Deleted && t.damage == nil && match(t) {
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

// phaseIndex is the [phase.Index] of the threads in memory.
type phaseIndex struct{ s *Store }

func (i phaseIndex) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, _ int) ([]phase.Found, error) {
	var damage []error
	found, err := view(ctx, i.s, "list threads", func() (found []phase.Found, err error) {
		damage = i.s.index.damage()
		for _, t := range i.s.intact(func(t *thread) bool { return t.Phase == p || t.Phase == segno.PhaseUnknown }) {
			if t.created.ID > after {
				found = append(found, phase.Found{Thread: t.created, Phase: t.Phase, Head: t.Head.Head, Seq: t.Seq})
			}
		}
		slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
		return found, nil
	})
	return found, errors.Join(append(damage, err)...)
}

// Remember keeps the phase in memory only. The next commit that changes it writes it to the log.
func (i phaseIndex) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	_, err := view(ctx, i.s, "list threads", func() (none struct{}, err error) {
		if t := i.s.index.threads[nameOf(f.Thread.ID)]; t != nil && t.Seq == f.Seq {
			t.Phase = p
		}
		return none, nil
	})
	return err
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, id segno.ThreadID) iter.Seq2[segno.Link, error] {
	const op = "read chain"
	return list(ctx, s, op, false, func() ([]segno.Link, error) {
		t, err := s.fresh(op, id)
		if err != nil {
			return nil, err
		}
		return clone(t.links), nil
	})
}
