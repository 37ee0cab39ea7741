package timeline

import (
	"context"
	"slices"

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
			whole, err := tx.transitionsOfUndo(ctx, m)
			if err != nil {
				return nil, err
			}
			for _, newer := range p.moves[:i] {
				if err := tx.dropReverted(ctx, p, newer, unmade, older, whole); err != nil {
					return nil, err
				}
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

// dropReverted removes the paths at which a move back, which is newer than the transitions of the turns of a part and of a whole move, found
// nothing of them to revert. Another author had reverted them then.
func (tx *txn) dropReverted(ctx context.Context, p redoPart, newer *moveBack, paths map[string]bool, alternatives ...[]transition) error {
	if !newer.isKnown || newer.to > p.from || newer.shared < p.to {
		return nil // the turns were not all in effect before it
	}
	before, err := tx.operationState(ctx, newer.move().Before)
	if err != nil {
		return err
	}
	for _, all := range alternatives {
		back := tx.newReverter(&MoveRequest{}, currentState{snap: *before})
		for _, t := range slices.Backward(all) {
			if err := back.reverse(ctx, t.to, t.from, nil, func(path string) bool { return paths[path] }); err != nil {
				return err
			}
		}
		for name, f := range back.files {
			if f.conflict == "" && f.want == f.present {
				delete(paths, name)
			}
		}
	}
	return nil
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
