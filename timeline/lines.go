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

// splitLines separates the lines of a turn from those of another author in files that tools of the turn
// named. The inputs of these tool calls show the content that the turn itself made. splitLines returns
// the changes that turn the present files into that content, and removes their paths from the list of
// paths in doubt.
func (tx *txn) splitLines(ctx context.Context, b segno.Batch, e *ownership.Evidence, changes []segno.Change, times ownership.Times, parts *ownership.Division) (own []segno.Change, err error) {
	for _, x := range changes {
		owner, ok := e.ShowsLines(x, times[x.Path], parts)
		if !ok {
			continue
		}
		after, ok, err := tx.ownLines(ctx, e, x, times[x.Path], owner)
		if err != nil {
			return nil, err
		}
		if !ok {
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

// ownLines returns the content of a file that the tools of a turn made, if another author changed the
// file, too. owner is the owner of its newest change.
func (tx *txn) ownLines(ctx context.Context, e *ownership.Evidence, x segno.Change, touched time.Time, owner ownership.Owner) (after []byte, ok bool, err error) {
	var before []byte
	if x.From.Type == segno.EntityFile {
		switch before, err = tx.Store.Objects().Get(ctx, x.From.Hash); {
		case segno.KindOf(err) == segno.KindCancelled:
			return nil, false, err
		case err != nil:
			return nil, false, nil //nolint:nilerr // the previous state is deferred or damaged: the path stays in doubt
		}
	}
	after, ok = e.Replay(x.Path, before)
	if ok && owner == ownership.Turn {
		ok = segno.HashOf(after) != x.To.Hash && tx.isOthersToo(e, x, touched, before, after)
	}
	return after, ok, nil
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
