package timeline

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// nestedWorkspace is a workspace below the one of a plan. A git worktree inside a project, for example, is a workspace, and its
// files are also those of the project.
type nestedWorkspace struct {
	id    segno.WorkspaceID
	below string             // its path in the outer workspace, with a slash at the end
	turns []segno.Checkpoint // its ended turns
	read  bool               // turns is set
}

// changedInNested returns the paths of a turn that an agent in a nested workspace may have changed meanwhile. A path that a
// tool of the turn named is the turn's. changes are the turn's.
func (o *overlaps) changedInNested(ctx context.Context, turn *segno.Checkpoint, changes []segno.Change) (map[string]bool, error) {
	if err := o.readNested(ctx); err != nil {
		return nil, err
	}
	contested := map[string]bool{}
	var own *timeSpan
	for i := range o.nested {
		n := &o.nested[i]
		if !slices.ContainsFunc(changes, func(c segno.Change) bool { return strings.HasPrefix(c.Path, n.below) }) {
			continue
		}
		if own == nil {
			var err error
			if own, err = o.spanOf(ctx, turn); err != nil {
				return nil, err
			}
		}
		isChanged, err := o.changedBeside(ctx, n, turn.Thread, own)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if rel, isInside := strings.CutPrefix(c.Path, n.below); isInside && isChanged(rel) && !own.NamesChange(c) {
				contested[c.Path] = true
			}
		}
	}
	return contested, nil
}

// readNested finds the nested workspaces.
func (o *overlaps) readNested(ctx context.Context) error {
	all, ok := o.Store.(segno.Workspaces)
	if !ok || o.nested != nil {
		return nil
	}
	found := []nestedWorkspace{}
	for rec, err := range all.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(o.Workspace.Root(), rec.Path); err == nil && rel != "." && filepath.IsLocal(rel) {
			found = append(found, nestedWorkspace{id: rec.ID, below: filepath.ToSlash(rel) + "/"})
		}
	}
	o.nested = found
	return nil
}

// changedBeside returns a function that reports whether a turn of another thread in a nested workspace, at a time at which own was
// at work, may have changed a path of that workspace. It returns true for every path while such a turn is open.
func (o *overlaps) changedBeside(ctx context.Context, n *nestedWorkspace, thread segno.ThreadID, own *timeSpan) (func(path string) bool, error) {
	for _, t := range o.turns {
		if t.Workspace == n.id && t.Thread != thread && !t.Start.After(own.To) {
			return func(string) bool { return true }, nil
		}
	}
	if err := o.readTurns(ctx, n); err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for i := range n.turns {
		c := &n.turns[i]
		if c.Thread == thread || c.Time.Before(own.From) {
			continue
		}
		s, err := o.timesOf(ctx, c)
		if err != nil {
			return nil, err
		}
		if s.From.After(own.To) || s.before.IsZero() || s.after.IsZero() {
			continue
		}
		changes, err := o.diff(ctx, s.before, s.after)
		if err != nil {
			return nil, err
		}
		for _, x := range changes {
			changed[x.Path] = true
		}
	}
	return func(path string) bool { return changed[path] }, nil
}

// readTurns reads the ended turns of a nested workspace.
func (o *overlaps) readTurns(ctx context.Context, n *nestedWorkspace) error {
	if n.read {
		return nil
	}
	for c, err := range o.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: n.id}) {
		if err != nil {
			return err
		}
		if endsTurn(&c) {
			n.turns = append(n.turns, c)
		}
	}
	n.read = true
	return nil
}
