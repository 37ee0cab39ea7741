package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// Unnamed returns the paths of those changes of a turn to files that were made while the turn ran a command, or another call that can
// write anything, and by no tool that names the file. The user may have made them, because nothing shows which process did.
func (tl *Timeline) Unnamed(ctx context.Context, turn *segno.Checkpoint, changes []segno.Change) ([]string, error) {
	tx := tl.unlocked()
	if turn.Kind != segno.CheckpointTurn || turn.Session == nil || len(changes) == 0 {
		return nil, nil
	}
	entries, err := turnEntries(ctx, tx.Store, turn)
	if err != nil {
		return nil, err
	}
	return tx.unnamed(turn, entries, changes), nil
}

func (tx *txn) unnamed(turn *segno.Checkpoint, entries []segno.Entry, changes []segno.Change) (paths []string) {
	e := ownership.Evidence{Calls: tx.calls(entries, dirOf(turn), turn.Time, nil), Root: tx.rootOf(turn)}
	listed := listedPaths(entries, segno.EntryUnnamed)
	ran := slices.ContainsFunc(e.Calls, func(c ownership.Call) bool { return !c.Confined }) || tx.mayExpand(turn, entries)
	if !ran && len(listed) == 0 {
		return nil
	}
	for _, x := range changes {
		if _, isDatabase := segno.DatabaseName(x.Path); !isDatabase && !ownership.IsDirChange(x) && (listed[x.Path] || ran && !e.NamesChange(x)) {
			paths = append(paths, x.Path)
		}
	}
	return paths
}
