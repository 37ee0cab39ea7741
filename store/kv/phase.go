package kv

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
)

// The threads that are not known to be in [segno.PhaseDone] have a key in openGroup. It is
// written before the record that changes the phase, and names that record's position: a
// writer that lost or died leaves a key that a later list removes, and no thread is missed.
const (
	openGroup  = "open{}"
	phasesMade = "phases{}made" // is there once all threads of an older version have their keys
)

func openKey(t segno.ThreadID) string { return openGroup + escape(string(t)) }

// openThread is the content of a thread's key in openGroup.
type openThread struct {
	id    segno.ThreadID
	pos   uint64 // of the record it was written for
	since int64
	key   string
	rev   Rev
}

func (s *Store) openOp(id segno.ThreadID, pos uint64) Op {
	var w writer
	w.text(string(id))
	w.uint(pos)
	w.int(s.options.Clock().UnixNano())
	return Op{Key: openKey(id), Val: s.code.frame(openKey(id), w.b), If: RevAny}
}

func (s *Store) decodeOpen(item Item) (x openThread, err error) {
	content, err := s.code.unframe(item.Key, item.Val)
	if err != nil {
		return x, err
	}
	r := reader{b: content}
	x = openThread{id: segno.ThreadID(r.text()), pos: r.uint(), since: r.int(), key: item.Key, rev: item.Rev}
	if r.err != nil {
		err = damaged(item.Key, r.err)
	}
	return x, err
}

// closeOpen removes the key of a thread whose turn ended with the record at pos. What it
// cannot remove, a later list does.
func (s *Store) closeOpen(ctx context.Context, id segno.ThreadID, pos uint64) {
	val, rev, err := s.kv.Get(ctx, openKey(id))
	if err != nil {
		return
	}
	if x, err := s.decodeOpen(Item{Key: openKey(id), Val: val, Rev: rev}); err == nil && x.pos <= pos {
		_ = s.kv.Delete(ctx, x.key, x.rev) // another writer's key has another revision
	}
}

// index finds threads by phase: [phase.Index].
type index struct{ s *Store }

func (x index) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, _ int) ([]phase.Found, error) {
	const op = "list threads"
	end, err := x.s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	var states []*state
	if p == segno.PhaseDone {
		states, err = x.s.threads(ctx)
	} else if err = x.s.makePhases(ctx); err == nil {
		states, err = x.s.openStates(ctx)
	}
	if err != nil {
		return nil, fail(op, "", err)
	}
	var found []phase.Found
	for _, st := range states {
		if st.Thread > after && (st.phase == p || st.phase == segno.PhaseUnknown) {
			found = append(found, phase.Found{Thread: st.thread, Phase: st.phase, Head: st.Head.Head, Seq: st.Seq})
		}
	}
	slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
	return found, nil
}

// makePhases gives the threads of an older version their keys, once.
func (s *Store) makePhases(ctx context.Context) error {
	if s.phasesMade.Load() {
		return nil
	}
	made, _, err := s.kv.Get(ctx, phasesMade)
	if err == nil {
		_, err = s.code.unframe(phasesMade, made)
	}
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		states, err := s.threads(ctx)
		if err != nil {
			return err
		}
		for _, st := range states {
			if st.phase == segno.PhaseDone {
				continue
			}
			if _, err := s.run(ctx, []Op{s.openOp(st.Thread, st.pos)}); err != nil {
				return err
			}
		}
		if _, err := s.kv.Put(ctx, phasesMade, s.code.frame(phasesMade, nil), RevAny); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	s.phasesMade.Store(true)
	return nil
}

// openStates returns where the threads stand that may not be in [segno.PhaseDone], and
// removes keys that are stale.
func (s *Store) openStates(ctx context.Context) (states []*state, err error) {
	var all []openThread
	for item, err := range s.kv.List(ctx, openGroup, "", 0) {
		if err != nil {
			return nil, err
		}
		x, err := s.decodeOpen(item)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	keys := make([]string, len(all))
	for i, x := range all {
		keys[i] = headKey(x.id)
	}
	found, err := s.statesAt(ctx, keys, func(i int) segno.ThreadID { return all[i].id })
	if err != nil {
		return nil, err
	}
	for i, st := range found {
		switch x := all[i]; {
		case st == nil && time.Duration(s.options.Clock().UnixNano()-x.since) < time.Hour,
			st != nil && st.pos < x.pos: // its writer may be about to write the record
		case st == nil, st.hidden, st.phase == segno.PhaseDone:
			if err := s.kv.Delete(ctx, x.key, x.rev); err != nil && segno.KindOf(err) != segno.KindConflict {
				return nil, err
			}
			continue
		}
		if st != nil && !st.hidden {
			states = append(states, st)
		}
	}
	return states, nil
}

func (x index) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	const op = "list threads"
	end, err := x.s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	st, err := x.s.fresh(ctx, f.Thread.ID, false)
	if err != nil || st == nil || st.Seq != f.Seq {
		return fail(op, string(f.Thread.ID), err)
	}
	next := st.clone()
	next.phase = p
	packed, err := next.encode(x.s.code)
	if err != nil {
		return err
	}
	x.s.states.drop(f.Thread.ID)
	key := headKey(f.Thread.ID)
	_, err = x.s.kv.Put(ctx, key, x.s.code.frame(key, packed), st.rev)
	if segno.KindOf(err) == segno.KindConflict && err != nil {
		err = nil // the thread has changed
	}
	return fail(op, string(f.Thread.ID), err)
}
