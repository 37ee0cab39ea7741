package file

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
)

// readAll reads what is new in all logs. A log that cannot be read does not keep it
// from reading the others: it says what is wrong with each.
func (s *Store) readAll(ctx context.Context, op string) (damage []error, err error) {
	if err := s.catchUp(ctx, op); err != nil {
		return nil, err
	}
	var behind []*thread
	s.mu.Lock()
	for _, t := range s.threads {
		if t.n == 0 || t.covered != t.size || t.damage != nil {
			behind = append(behind, t)
		}
	}
	for _, e := range s.nameless {
		damage = append(damage, e)
	}
	s.mu.Unlock()
	for _, t := range behind {
		if err := s.look(ctx, op, t); ctx.Err() != nil {
			return nil, fail(op, "", ctx.Err())
		} else if err != nil {
			damage = append(damage, err)
		}
	}
	slices.SortFunc(damage, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return damage, nil
}

// sequence calls all once the iteration begins, and yields what it returns, then
// each damage that hides more.
func sequence[T any](ctx context.Context, s *Store, op string, all func() (found []T, damage []error, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		end, err := s.begin(ctx, op)
		if err != nil {
			yield(none, err)
			return
		}
		found, damage, err := all()
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
		for _, e := range damage {
			if !yield(none, e) {
				return
			}
		}
	}
}

// Checkpoints implements [segno.Store]. If threads are damaged, the others' come
// first and then an error for each.
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	const op = "list checkpoints"
	return sequence(ctx, s, op, func() (found []segno.Checkpoint, damage []error, err error) {
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			return nil, nil, invalid(op, "", "before needs a thread, and neither it nor limit is negative")
		}
		if q.Pinned || q.Thread == "" {
			damage, err = s.readAll(ctx, op)
		}
		if q.Thread != "" && err == nil {
			if _, err = s.fresh(ctx, op, q.Thread); segno.KindOf(err) == segno.KindNotFound && err != nil {
				return nil, nil, nil
			}
			damage = nil
		}
		if err != nil {
			return nil, nil, err
		}
		for _, x := range s.chosen(&q) {
			c := clone(*x.Checkpoint, same)
			if q.Pinned {
				c.Label = x.pin
			}
			found = append(found, c)
		}
		return found, damage, nil
	})
}

// choice is a commit that a query chooses, and its pin.
type choice struct {
	*commit
	pin string
}

// chosen are the commits a query chooses, newest first.
func (s *Store) chosen(q *segno.CheckpointQuery) (found []choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Thread != "" {
		return s.chosenOf(s.threads[q.Thread], q, nil)
	}
	for _, t := range s.threads {
		found = s.chosenOf(t, q, found)
	}
	slices.SortFunc(found, func(a, b choice) int {
		return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.Thread, b.Thread), cmp.Compare(b.Seq, a.Seq))
	})
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found
}

// chosenOf adds a thread's newest that q chooses, as many as its limit allows. The
// caller has the store's lock.
func (s *Store) chosenOf(t *thread, q *segno.CheckpointQuery, found []choice) []choice {
	if t == nil || t.hidden {
		return found
	}
	commits := t.commits
	if q.Before > 0 {
		commits = commits[:min(int64(len(commits)), q.Before-1)] // the first has seq 1
	}
	for n := 0; len(commits) > 0 && (q.Limit == 0 || n < q.Limit); commits = commits[:len(commits)-1] {
		x := commits[len(commits)-1]
		pin := s.pins[x.ID].name
		if x.Checkpoint == nil || q.Pinned && pin == "" || !q.Matches(x.Checkpoint) {
			continue
		}
		found = append(found, choice{x, pin})
		n++
	}
	return found
}

// Threads implements [segno.Store]. If threads are damaged, the others come
// first and then an error for each.
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	const op = "list threads"
	if q.Phase != segno.PhaseUnknown && phase.Check(&q) == nil {
		return phase.Threads(ctx, s, index{s}, q)
	}
	return sequence(ctx, s, op, func() ([]segno.Thread, []error, error) {
		if err := phase.Check(&q); err != nil {
			return nil, nil, err
		}
		damage, err := s.readAll(ctx, op)
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var found []*thread
		for _, t := range s.threads {
			held := func(l segno.Link) bool { return l.Session == q.Session }
			if t.n > 0 && !t.hidden && t.damage == nil && q.Matches(&t.Thread) && (q.Session == "" || slices.ContainsFunc(t.links, held)) {
				found = append(found, t)
			}
		}
		slices.SortFunc(found, func(a, b *thread) int {
			return cmp.Or(cmp.Compare(b.changed, a.changed), cmp.Compare(a.id, b.id))
		})
		if q.Limit > 0 && len(found) > q.Limit {
			found = found[:q.Limit]
		}
		out := make([]segno.Thread, len(found))
		for i, t := range found {
			out[i] = t.Thread
		}
		return out, damage, nil
	})
}

// index finds threads by phase among those in memory: [phase.Index].
type index struct{ s *Store }

func (x index) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, _ int) (found []phase.Found, err error) {
	const op = "list threads"
	end, err := x.s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	damage, err := x.s.readAll(ctx, op)
	if err != nil {
		return nil, err
	}
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	for _, part := range []segno.Phase{segno.PhaseUnknown, p} {
		for t := range x.s.phases[part] {
			if !t.hidden && t.damage == nil && t.id > after {
				found = append(found, phase.Found{Thread: t.Thread, Phase: t.phase, Head: t.head.Head, Seq: t.head.Seq})
			}
		}
	}
	slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
	return found, errors.Join(damage...)
}

// Remember keeps the phase in memory only: the log has it from the next commit that tells.
func (x index) Remember(_ context.Context, f phase.Found, p segno.Phase) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if t := x.s.threads[f.Thread.ID]; t != nil && t.head.Seq == f.Seq {
		x.s.setPhase(t, p)
	}
	return nil
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, id segno.ThreadID) iter.Seq2[segno.Link, error] {
	const op = "read chain"
	return sequence(ctx, s, op, func() ([]segno.Link, []error, error) {
		t, err := s.fresh(ctx, op, id)
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return clone(t.links, same), nil, nil
	})
}
