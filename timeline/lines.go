package timeline

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// splitLines separates the lines of a turn from those of another author in files that tools of the turn
// named, and the changes of the files' attributes from those of their content. The inputs of these tool calls show the content that the turn itself made. splitLines returns
// the changes that turn the present files into that content. It updates the list of paths in doubt, and the one of those that no tool named.
func (tx *txn) splitLines(ctx context.Context, b segno.Batch, e *ownership.Evidence, changes []segno.Change, times ownership.Times, parts *ownership.Division) (own []segno.Change, err error) {
	for _, x := range changes {
		l, ok := e.LinesOf(x, times[x.Path], parts)
		if !ok {
			continue
		}
		after, compared, err := tx.compareLines(ctx, e, x, &l)
		if err != nil {
			return nil, err
		}
		verdict, left := l.Verdict(compared), x.To
		if verdict == ownership.Unchanged && l.IsUnnamed(compared) {
			parts.Unnamed = append(parts.Unnamed, x.Path)
		}
		if verdict == ownership.Split {
			parts.Doubt = slices.DeleteFunc(parts.Doubt, func(p string) bool { return p == x.Path })
			left.Size = int64(len(after))
			if left.Hash, err = b.Put(ctx, after); err != nil {
				return nil, err
			}
		}
		if verdict != ownership.InDoubt && !slices.Contains(parts.Doubt, x.Path) && hasOtherAttributes(x) {
			if verdict = l.AttributesVerdict(); verdict == ownership.Split {
				left.Mode, left.Owner, left.Xattrs = x.From.Mode, x.From.Owner, x.From.Xattrs
			}
		}
		switch {
		case verdict == ownership.InDoubt:
			parts.Doubt = append(parts.Doubt, x.Path)
		case left != x.To:
			own = append(own, segno.Change{Path: x.Path, From: x.To, To: left})
		}
	}
	return own, nil
}

// hasOtherAttributes reports whether a change of a file also changes its mode, owner or extended attributes.
func hasOtherAttributes(x segno.Change) bool {
	return x.From.Type == segno.EntityFile && (modeOf(x.From) != modeOf(x.To) || x.From.Xattrs != x.To.Xattrs)
}

// compareLines returns the content of a file that the tools of a turn alone would have left, and compares it with the
// present content. It reads no file if the inputs of the tools do not show their changes.
func (tx *txn) compareLines(ctx context.Context, e *ownership.Evidence, x segno.Change, l *ownership.Lines) (after []byte, c ownership.Comparison, err error) {
	if !l.Replays {
		return nil, c, nil
	}
	var before []byte
	if x.From.Type == segno.EntityFile {
		switch before, err = tx.Store.Objects().Get(ctx, x.From.Hash); {
		case segno.KindOf(err) == segno.KindCancelled:
			return nil, c, err
		case err != nil:
			return nil, c, nil //nolint:nilerr // the previous state is deferred or damaged, so the edits fit nothing
		}
	}
	if after, c.Fits = e.Replay(x.Path, before); !c.Fits {
		return nil, c, nil
	}
	if c.Same = segno.HashOf(after) == x.To.Hash; c.Same {
		return after, c, nil
	}
	now, err := readFile(tx.Workspace.Root(), x.Path, x.To.Size)
	if err != nil || segno.HashOf(now) != x.To.Hash {
		return after, c, nil //nolint:nilerr // the file has changed since; the next turn or move examines it again
	}
	_, conflict := tx.Workspace.Merge(after, now, before)
	c.Apart = conflict == ""
	return after, c, nil
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
