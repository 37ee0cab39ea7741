package timeline

import (
	"context"
	"path"
	"strings"

	"github.com/dalsegno/segno"
)

// pathChecker is the ability of a [Workspace] to tell how much of a path below root is
// there as directories, once steps were taken; see workspace.Dir.Existing.
type pathChecker interface {
	Existing(root, rel string, becomes func(path string) (segno.EntityType, bool)) string
}

// sessionDir returns where the session of checkpoint x continues when its files lie in
// root: in the subdirectory of root that it ran in, or the nearest directory above it
// that is there after steps.
func (m *txn) sessionDir(ctx context.Context, x *segno.Checkpoint, root string, steps []segno.Change) (string, error) {
	if x.Session == nil {
		return root, nil
	}
	return m.dirBelow(ctx, x.Session.Dir, x, root, steps)
}

// landingDir returns where the conversation that a plan moves to continues.
func (m *txn) landingDir(ctx context.Context, p *Plan) (string, error) {
	x, err := m.checkpoint(ctx, p.Landing)
	if err != nil {
		return "", err
	}
	return m.dirBelow(ctx, p.Session.Dir, x, m.Workspace.Root(), p.Steps)
}

// dirBelow is sessionDir for a session that ran in dir.
func (m *txn) dirBelow(ctx context.Context, dir string, x *segno.Checkpoint, root string, steps []segno.Change) (string, error) {
	_, rel, err := m.workspaceOf(ctx, dir, x)
	if err != nil {
		return "", err
	}
	if w, ok := m.Workspace.(pathChecker); ok && rel != "." {
		rel = w.Existing(root, rel, typeAfter(steps))
	}
	return path.Join(root, rel), nil
}

// workspaceOf returns the root of the workspace that the session of checkpoint x ran in, and
// the session's directory relative to it: dir and "." if that cannot be told.
// Checkpoints that inherit their session from the one before them, in a fork or after a
// move, may have another root than the session had.
func (m *txn) workspaceOf(ctx context.Context, dir string, x *segno.Checkpoint) (root, rel string, err error) {
	if rel, ok := relativeTo(m.Workspace.Root(), dir); ok {
		return m.Workspace.Root(), rel, nil
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
		parent, err := m.checkpoint(ctx, x.Parent)
		if segno.KindOf(err) == segno.KindNotFound {
			return dir, ".", nil
		}
		if err != nil {
			return "", "", err
		}
		x = parent
	}
}

// relativeTo returns dir relative to root, if it lies there.
func relativeTo(root, dir string) (rel string, ok bool) {
	root, dir = path.Clean(root), path.Clean(dir)
	if root == dir {
		return ".", true
	}
	return strings.CutPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}

// typeAfter returns what steps make of a path.
func typeAfter(steps []segno.Change) func(string) (segno.EntityType, bool) {
	to := make(map[string]segno.EntityType, len(steps))
	for _, s := range steps {
		to[s.Path] = s.To.Type
	}
	return func(p string) (segno.EntityType, bool) {
		t, ok := to[p]
		return t, ok
	}
}
