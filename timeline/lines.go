package timeline

import (
	"context"
	"io"
	"os"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// maxReplay is the size in bytes above which splitLines does not examine a file.
const maxReplay = 1 << 20

// splitLines separates the lines of a turn from those of another author in files that tools of the turn
// named. The inputs of these tool calls show the content that the turn itself made. splitLines returns
// the changes that turn the present files into that content, and removes their paths from the list of
// paths in doubt.
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
				continue // the previous state is deferred or damaged: the path stays in doubt
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

// isOthersToo reports whether a file whose newest change is the turn's also has lines of another author.
// after is the content that the turn's tools made. A difference from it belongs to another author if no
// command of the turn can have made it and it is in other places than the turn's changes. A difference in
// the same place comes from a formatter that ran after the tool.
func (tx *txn) isOthersToo(e *ownership.Evidence, x segno.Change, touched time.Time, before, after []byte) bool {
	if e.RanBefore(touched) {
		return false
	}
	now, err := readFile(tx.Workspace.Root(), x.Path, x.To.Size)
	if err != nil || segno.HashOf(now) != x.To.Hash {
		return false // the file has changed since; the next turn or move examines it again
	}
	_, conflict := tx.Workspace.Merge(after, now, before)
	return conflict == ""
}

// readFile reads up to most bytes of a regular file in a directory. It follows no symlink out of the
// directory.
func readFile(dir, path string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if fi, err := root.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return nil, err // opening a FIFO would block
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
