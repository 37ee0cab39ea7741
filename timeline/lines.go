package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ownership"
)

// maxReplay is the size above which the lines of a file are not told apart.
const maxReplay = 1 << 20

// splitLines tells the lines of a turn apart from those of another author in files that tools of the
// turn named. The inputs of these calls show what the turn itself made of such a file. splitLines returns
// the edits with which the present files become what the turn left, and removes the paths from the list
// of those in doubt.
func (tx *txn) splitLines(ctx context.Context, e *ownership.Evidence, changes []segno.Change, times ownership.Times, parts *ownership.Division) (map[string]segno.FileEdit, error) {
	edits := map[string]segno.FileEdit{}
	for _, x := range changes {
		owner := e.Owner(x, ownership.Touch{At: times[x.Path]})
		isTurns := slices.Contains(parts.Turn, x.Path)
		isDoubtful := slices.Contains(parts.Doubt, x.Path)
		switch {
		case x.To.Type != segno.EntityFile || x.From.Type != segno.EntityFile && x.From.Type != segno.EntityNone:
			continue
		case !(owner == ownership.Turn && isTurns) && !(owner == ownership.Doubt && isDoubtful):
			continue
		case max(x.From.Size, x.To.Size) > maxReplay || !e.CanReplay(x.Path) || e.Wrote(x):
			continue
		}
		var before []byte
		if x.From.Type == segno.EntityFile {
			var err error
			if before, err = tx.Store.Objects().Get(ctx, x.From.Hash); err != nil {
				if segno.KindOf(err) == segno.KindCancelled {
					return nil, err
				}
				continue // the state before is deferred or damaged: the path stays in doubt
			}
		}
		after, ok := e.Replay(x.Path, before)
		if !ok || segno.HashOf(after) == x.To.Hash && owner == ownership.Turn {
			continue
		}
		if owner == ownership.Doubt {
			parts.Doubt = slices.DeleteFunc(parts.Doubt, func(p string) bool { return p == x.Path })
		} else if e.RanBefore(times[x.Path]) {
			continue // a command of the turn may have made the difference
		}
		edits[x.Path] = func(now []byte) ([]byte, bool) {
			if owner == ownership.Doubt {
				return after, true
			}
			// The newest change is the turn's. A difference from its own lines is another author's if it is
			// in other places. In the same place it is a formatter's, which runs after the tool.
			_, conflict := tx.Workspace.Merge(after, now, before)
			return after, conflict == ""
		}
	}
	return edits, nil
}
