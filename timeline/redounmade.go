package timeline

import (
	"context"

	"github.com/dalsegno/segno"
)

// unmadeBefore returns the changes of turns that no redo has made again since a move reverted them, because their paths were conflicts then.
// The newest move over the turns could not revert these: its transitions are newest. If oldest is not "", moves before that one do not count.
func (tx *txn) unmadeBefore(ctx context.Context, p redoPart, newest []transition, oldest segno.OperationID) (all []transition, err error) {
	seen := map[string]bool{} // paths that a newer move wrote, or left as the user wanted them
	for _, t := range newest {
		changes, err := tx.diffStates(ctx, t.from, t.to)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			seen[c.Path] = true
		}
	}
	for i, m := range p.moves {
		unmade, err := tx.unseen(ctx, m, seen)
		if err != nil {
			return nil, err
		}
		if i > 0 && m.isKnown && len(unmade) > 0 {
			older, err := tx.transitionsOf(ctx, p, m) // nil if the move went over only some of the turns
			if err != nil {
				return nil, err
			}
			for _, t := range older {
				t.paths = unmade
				all = append(all, t)
			}
		}
		if oldest != "" && m.move().ID == oldest {
			break
		}
	}
	return all, nil
}

// unseen returns the paths that a move wrote and that are not among the seen ones, and adds them to these.
func (tx *txn) unseen(ctx context.Context, m *moveBack, seen map[string]bool) (map[string]bool, error) {
	paths := map[string]bool{}
	for _, op := range m.ops {
		changes, err := tx.changesOf(ctx, &op)
		if segno.KindOf(err) == segno.KindNotFound {
			continue // a collection removed its states
		}
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if !seen[c.Path] {
				paths[c.Path] = true
			}
			seen[c.Path] = true
		}
	}
	return paths, nil
}
