package timeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// findOverwritten finds changes of a turn that another author has since overwritten or reverted, so that
// the newest change of the path does not show them. A turn of another thread that began or ended meanwhile
// recorded the files at that moment. If the state of a path at that moment differs from its first and its
// last state, and a command of the turn ran before, the turn may have made the earlier change. The path is
// then in doubt, and findOverwritten returns the change to its state at that moment. others are the paths
// that others changed last.
func (tx *txn) findOverwritten(ctx context.Context, e *ownership.Evidence, w *turnEnd, changes []segno.Change, others []string) ([]segno.Change, error) {
	moments, err := tx.statesSince(ctx, w, e.End)
	if err != nil {
		return nil, err
	}
	found := ownership.NewOverwritten(changes, others)
	for _, m := range moments {
		if !e.RanBefore(m.at) {
			continue
		}
		then, err := tx.diff(ctx, w.turn.Before.Tree, m.tree)
		if errors.Is(err, segno.KindNotFound) {
			continue // a collection dropped the tree, or its commit is deferred
		}
		if err != nil {
			return nil, err
		}
		found.Add(then)
	}
	return found.Own, nil
}

// moment is the state of the files at a time.
type moment struct {
	at   time.Time
	tree segno.Hash
}

// statesSince returns the states of the files that turns of other threads recorded between the beginning
// of a turn and its end, newest first.
func (tx *txn) statesSince(ctx context.Context, w *turnEnd, end time.Time) (all []moment, err error) {
	const most = 64 // checkpoints to examine
	add := func(at time.Time, s *segno.Snapshot) {
		if hasTree(s) && at.After(w.turn.Start) && !at.After(end) {
			all = append(all, moment{at, s.Tree})
		}
	}
	for _, t := range tx.turns {
		if t.Workspace == tx.Workspace.ID() && t.Key != w.turn.Key {
			add(t.Start, t.Before)
		}
	}
	seen := 0
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: tx.Workspace.ID()}) {
		if err != nil {
			return nil, err
		}
		if seen++; seen > most || c.Time.Before(w.turn.Start) {
			break
		}
		// The checkpoint of a turn excludes the changes of others, so its tree never was the state of the
		// files.
		if c.Kind == segno.CheckpointBase || c.Kind == segno.CheckpointExternal && c.Label == "" {
			add(c.Time, c.Workspace)
		}
	}
	slices.SortFunc(all, func(a, b moment) int { return b.at.Compare(a.at) })
	return all, nil
}
