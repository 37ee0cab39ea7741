package timeline

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// changedInNested returns the paths of a turn that an agent in another workspace below this one may have changed meanwhile: a
// git worktree inside a project, for example, is a workspace of its own, and its files are also those of the project. A path that a
// tool of the turn named is the turn's. changes are the turn's.
func (tx *txn) changedInNested(ctx context.Context, turn *segno.Checkpoint, changes []segno.Change) (map[string]bool, error) {
	nested, err := tx.nestedWorkspaces(ctx, changes)
	if err != nil || len(nested) == 0 {
		return nil, err
	}
	own, err := tx.spanOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	contested := map[string]bool{}
	for below, id := range nested {
		isChanged, err := tx.changedBy(ctx, id, turn.Thread, own)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if rel, isInside := strings.CutPrefix(c.Path, below); isInside && isChanged(rel) && !own.NamesChange(c) {
				contested[c.Path] = true
			}
		}
	}
	return contested, nil
}

// nestedWorkspaces returns the workspaces below this one that contain a changed path, by their paths in this one, each with a slash
// at its end.
func (tx *txn) nestedWorkspaces(ctx context.Context, changes []segno.Change) (map[string]segno.WorkspaceID, error) {
	all, ok := tx.Store.(segno.Workspaces)
	if !ok || len(changes) == 0 {
		return nil, nil
	}
	nested := map[string]segno.WorkspaceID{}
	for rec, err := range all.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(tx.Workspace.Root(), rec.Path)
		if err != nil || rel == "." || !filepath.IsLocal(rel) {
			continue // it is not below this one
		}
		below := filepath.ToSlash(rel) + "/"
		if slices.ContainsFunc(changes, func(c segno.Change) bool { return strings.HasPrefix(c.Path, below) }) {
			nested[below] = rec.ID
		}
	}
	return nested, nil
}

// changedBy returns a function that reports whether a turn of another thread in a workspace, at a time at which own was at work,
// may have changed a path of that workspace. It returns true for every path while such a turn is open.
func (tx *txn) changedBy(ctx context.Context, id segno.WorkspaceID, thread segno.ThreadID, own *timeSpan) (func(path string) bool, error) {
	for _, t := range tx.turns {
		if t.Workspace == id && t.Thread != thread && !t.Start.After(own.To) {
			return func(string) bool { return true }, nil
		}
	}
	changed := map[string]bool{}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: id}) {
		if err != nil {
			return nil, err
		}
		if c.Thread == thread || !endsTurn(&c) || c.Time.Before(own.From) {
			continue
		}
		s, err := tx.spanOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		if s.From.After(own.To) || s.before.IsZero() || s.after.IsZero() {
			continue
		}
		changes, err := tx.diff(ctx, s.before, s.after)
		if err != nil {
			return nil, err
		}
		for _, x := range changes {
			changed[x.Path] = true
		}
	}
	return func(path string) bool { return changed[path] }, nil
}
