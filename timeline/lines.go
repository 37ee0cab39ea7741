package timeline

import (
	"context"
	"io"
	"os"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ownership"
)

// maxReplay is the size above which the lines of a file are not told apart.
const maxReplay = 1 << 20

// splitLines tells the lines of a turn apart from those of another author in files that tools of the
// turn named. The inputs of these calls show what the turn itself made of such a file. splitLines returns
// the changes with which the present files become what the turn left, and removes the paths from the
// list of those in doubt.
func (tx *txn) splitLines(ctx context.Context, b segno.Batch, e *ownership.Evidence, changes []segno.Change, times ownership.Times, parts *ownership.Division) (own []segno.Change, err error) {
	for _, x := range changes {
		isFile := x.To.Type == segno.EntityFile && (x.From.Type == segno.EntityFile || x.From.Type == segno.EntityNone)
		if !isFile || max(x.From.Size, x.To.Size) > maxReplay || !e.CanReplay(x.Path) || e.Wrote(x) {
			continue
		}
		owner := e.Owner(x, ownership.Touch{At: times[x.Path]})
		isTurns := owner == ownership.Turn && slices.Contains(parts.Turn, x.Path)
		if !isTurns && !(owner == ownership.Doubt && slices.Contains(parts.Doubt, x.Path)) {
			continue
		}
		var before []byte
		if x.From.Type == segno.EntityFile {
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
		if owner == ownership.Turn && !tx.isOthersToo(e, x, times[x.Path], before, after) {
			continue
		}
		parts.Doubt = slices.DeleteFunc(parts.Doubt, func(p string) bool { return p == x.Path })
		x.From, x.To.Size = x.To, int64(len(after))
		if x.To.Hash, err = b.Put(ctx, after); err != nil {
			return nil, err
		}
		own = append(own, x)
	}
	return own, nil
}

// isOthersToo reports whether a file whose newest change is the turn's has lines of another author. after
// is what the turn's tools made of it. A difference from that is another author's if no command of the
// turn can have made it, and if it is in other places. In the same place it is a formatter's, which runs
// after the tool.
func (tx *txn) isOthersToo(e *ownership.Evidence, x segno.Change, touched time.Time, before, after []byte) bool {
	if e.RanBefore(touched) {
		return false
	}
	now, err := readFile(tx.Workspace.Root(), x.Path, x.To.Size)
	if err != nil || segno.HashOf(now) != x.To.Hash {
		return false // it has changed since, and the next turn or move looks at it again
	}
	_, conflict := tx.Workspace.Merge(after, now, before)
	return conflict == ""
}

// readFile reads the beginning of a regular file in a directory, and follows no symlink out of it.
func readFile(dir, path string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if fi, err := root.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return nil, err // a FIFO would block
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
