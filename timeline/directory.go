package timeline

import (
	"context"
	"path"
	"strings"

	"github.com/dalsegno/segno"
)

// sessionDir returns the directory in which the session of checkpoint x continues if its files
// are in root: the subdirectory of root in which it ran, or the nearest existing directory
// above that.
func (tx *txn) sessionDir(ctx context.Context, x *segno.Checkpoint, root string) (string, error) {
	if x.Session == nil {
		return root, nil
	}
	return tx.dirBelow(ctx, x.Session.Dir, x, root, nil)
}

// dirBelow is sessionDir for a session that ran in dir, as if the steps of a plan were done.
func (tx *txn) dirBelow(ctx context.Context, dir string, x *segno.Checkpoint, root string, steps []segno.Change) (string, error) {
	_, rel, err := tx.workspaceOf(ctx, dir, x)
	if err != nil {
		return "", err
	}
	if rel != "." {
		becomes := entities(steps)
		rel = tx.Workspace.Existing(root, rel, func(p string) (segno.EntityType, bool) {
			e, ok := becomes[p]
			return e.Type, ok
		})
	}
	return path.Join(root, rel), nil
}

// workspaceOf returns the root of the workspace in which the session of checkpoint x ran, and
// the session's directory relative to it, or dir and "." if that is unknown. A checkpoint that
// inherited its session from the previous checkpoint, in a fork or after a move, may have
// another root than the session had.
func (tx *txn) workspaceOf(ctx context.Context, dir string, x *segno.Checkpoint) (root, rel string, err error) {
	if rel, ok := relativeTo(tx.Workspace.Root(), dir); ok {
		return tx.Workspace.Root(), rel, nil
	}
	for {
		if x.Workspace != nil {
			if rel, ok := relativeTo(x.Workspace.Root, dir); ok {
				return x.Workspace.Root, rel, nil
			}
		}
		if x.Kind == segno.CheckpointTurn || x.Parent == "" {
			return dir, ".", nil
		}
		parent, err := tx.checkpoint(ctx, x.Parent)
		if segno.KindOf(err) == segno.KindNotFound {
			return dir, ".", nil
		}
		if err != nil {
			return "", "", err
		}
		x = parent
	}
}

// relativeTo returns dir relative to root. ok is false if dir is not in root.
func relativeTo(root, dir string) (rel string, ok bool) {
	root, dir = path.Clean(root), path.Clean(dir)
	if root == dir {
		return ".", true
	}
	return strings.CutPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}
