package kv

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/phase"
)

// Each thread that is not known to be in [segno.PhaseDone] has a key in openGroup. The key is written before
// the record that changes the phase, and contains the position of that record. A writer that lost or died
// leaves a key that a later list removes. A list therefore never misses a thread.

// closeOpen removes the key of a thread from openGroup after the record at pos ended the thread's turn. If
// that fails, a later list removes the key.
func (s *Store) closeOpen(ctx context.Context, id segno.ThreadID, pos uint64) {
	key := openGroup + escape(string(id))
	val, rev, err := s.get(ctx, key)
	if err != nil || val == nil {
		return
	}
	if x, err := s.decodeListed(Item{Key: key, Val: val, Rev: rev}); err == nil && x.pos <= pos {
		_ = s.deleteUnchanged(ctx, x.Item)
	}
}

// phaseIndex finds threads by phase: [phase.Index].
type phaseIndex struct{ s *Store }

func (x phaseIndex) InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, _ int) ([]phase.Found, error) {
	return call(ctx, x.s, "list threads", "", func() (found []phase.Found, err error) {
		var states []*threadState
		if p == segno.PhaseDone {
			states, err = x.s.visibleThreads(ctx)
		} else if err = x.s.writePhases(ctx); err == nil {
			states, err = x.s.openStates(ctx)
		}
		for _, st := range states {
			if st.Head.Thread > after && (st.Phase == p || st.Phase == segno.PhaseUnknown) {
				found = append(found, phase.Found{Thread: st.info, Phase: st.Phase, Head: st.Head.Head, Seq: st.Seq})
			}
		}
		slices.SortFunc(found, func(a, b phase.Found) int { return cmp.Compare(a.Thread.ID, b.Thread.ID) })
		return found, err
	})
}

// writePhases writes the keys for threads of an older version, once.
func (s *Store) writePhases(ctx context.Context) error {
	if s.phasesMade.Load() {
		return nil
	}
	made, _, err := s.get(ctx, phasesKey)
	if err != nil {
		return err
	}
	if made != nil {
		_, err = s.code.unframe(phasesKey, made)
	} else {
		err = s.writeOpen(ctx)
	}
	if err == nil {
		s.phasesMade.Store(true)
	}
	return err
}

func (s *Store) writeOpen(ctx context.Context) error {
	states, err := s.visibleThreads(ctx)
	if err != nil {
		return err
	}
	for _, st := range states {
		if st.Phase == segno.PhaseDone {
			continue
		}
		if _, err := s.apply(ctx, []Op{s.listOp(openGroup, st.Head.Thread, st.pos)}); err != nil {
			return err
		}
	}
	_, err = s.kv.Put(ctx, phasesKey, s.code.frame(phasesKey, nil), RevAny)
	return err
}

// openStates returns the threads that may not be in [segno.PhaseDone], and removes stale keys.
func (s *Store) openStates(ctx context.Context) (states []*threadState, err error) {
	listed, all, err := s.listStates(ctx, openGroup)
	if err != nil {
		return nil, err
	}
	for i, st := range all {
		x := listed[i]
		begun := st.Exists && st.pos < x.pos || !st.Exists && s.isYoung(x, time.Hour) // the writer may be about to write the record
		if !begun && (!st.visible() || st.Phase == segno.PhaseDone) {
			if err := s.deleteUnchanged(ctx, x.Item); err != nil {
				return nil, err
			}
		} else if st.visible() {
			states = append(states, st)
		}
	}
	return states, nil
}

func (x phaseIndex) Remember(ctx context.Context, f phase.Found, p segno.Phase) error {
	s, id := x.s, f.Thread.ID
	return s.run(ctx, "list threads", string(id), func() error {
		st, err := s.readState(ctx, id, false)
		if err != nil || !st.Exists || st.Seq != f.Seq {
			return err
		}
		next := *st
		next.Phase = p
		err = s.putState(ctx, &next, st.rev)
		if isKind(err, segno.KindConflict) {
			err = nil // the thread has changed meanwhile
		}
		return err
	})
}
