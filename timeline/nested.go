package timeline

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// nestedWorkspace is a workspace below the one of a plan, or above it. A git worktree inside a project, for example, is a workspace,
// and its files are also those of the project.
type nestedWorkspace struct {
	id    segno.WorkspaceID
	below string             // its path in the workspace of the plan, with a slash at the end; "" if it is above that one
	above string             // the path of the workspace of the plan in it, with a slash at the end; "" if it is below that one
	root  string             // its directory
	turns []segno.Checkpoint // its ended turns; nil if they were not read
}

// changedInNested returns the paths of a turn that an agent in a nested workspace may have changed meanwhile, and those that an agent
// in an outer workspace named meanwhile. A path in a nested workspace that a tool of the turn named is the turn's. changes are the turn's.
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
		if n.above != "" {
			if err := o.addNamedFromAbove(ctx, n, turn.Thread, own, changes, contested); err != nil {
				return nil, err
			}
			continue
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

// readNested finds the nested and the outer workspaces.
func (o *overlaps) readNested(ctx context.Context) (err error) {
	if o.nested == nil {
		o.nested, err = o.nestedWorkspaces(ctx)
	}
	return err
}

func (tx *txn) nestedWorkspaces(ctx context.Context) ([]nestedWorkspace, error) {
	found := []nestedWorkspace{}
	all, ok := tx.Store.(segno.Workspaces)
	if !ok {
		return found, nil
	}
	for rec, err := range all.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return nil, err
		}
		n := nestedWorkspace{id: rec.ID, root: rec.Path, below: pathBelow(tx.Workspace.Root(), rec.Path), above: pathBelow(rec.Path, tx.Workspace.Root())}
		if n.below != "" || n.above != "" {
			found = append(found, n)
		}
	}
	return found, nil
}

// pathBelow returns the path of a directory in another one that contains it, with a slash at the end, or "".
func pathBelow(outer, inner string) string {
	rel, err := filepath.Rel(outer, inner)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel) + "/"
}

// addNamedFromAbove adds the paths of changes that a turn of another thread in an outer workspace named while own was at work. The files
// of the outer workspace include those of this one. So a change without a name is a change of the turn here, as if no other agent worked.
func (o *overlaps) addNamedFromAbove(ctx context.Context, n *nestedWorkspace, thread segno.ThreadID, own *timeSpan, changes []segno.Change, to map[string]bool) error {
	rivals, err := o.spansAbove(ctx, n, thread, own)
	if err != nil {
		return err
	}
	for _, c := range changes {
		in := c
		in.Path = n.above + c.Path
		if slices.ContainsFunc(rivals, func(s *timeSpan) bool { return s.NamesChangeBetween(in, own.From, own.To) }) {
			to[c.Path] = true
		}
	}
	return nil
}

// spansAbove returns the turns of other threads in an outer workspace that were at work at the same time as own.
func (o *overlaps) spansAbove(ctx context.Context, n *nestedWorkspace, thread segno.ThreadID, own *timeSpan) (spans []*timeSpan, err error) {
	for _, t := range o.turns {
		if t.Workspace != n.id || t.Thread == thread || t.Start.After(own.To) {
			continue
		}
		entries, _, err := o.Spool.Entries(ctx, t.Key)
		if err != nil {
			return nil, err
		}
		spans = append(spans, o.newSpan(entries, t.Source.Dir, n.root, time.Time{}))
	}
	if n.turns == nil {
		var err error
		if n.turns, err = o.endedTurns(ctx, n.id); err != nil {
			return nil, err
		}
	}
	for i := range n.turns {
		if c := &n.turns[i]; c.Thread != thread && !c.Time.Before(own.From) {
			s, err := o.spanOf(ctx, c)
			if err != nil {
				return nil, err
			}
			spans = append(spans, s)
		}
	}
	for _, s := range spans {
		s.Root = n.root
	}
	return spans, nil
}

// refuseNested returns an error if the plan p writes files in a nested workspace while an agent works there.
func (tx *txn) refuseNested(ctx context.Context, ask MoveRequest, p *Plan) error {
	isOpen := func(t OpenTurn) bool { return t.Workspace != tx.Workspace.ID() && !t.InBackground() && !tx.isGone(t) }
	if ask.WhileRunning || len(p.Steps) == 0 || !slices.ContainsFunc(tx.turns, isOpen) {
		return nil
	}
	all, err := tx.nestedWorkspaces(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		isBelow := func(c segno.Change) bool { return strings.HasPrefix(c.Path, n.below) }
		if n.below == "" || !slices.ContainsFunc(p.Steps, isBelow) {
			continue
		}
		for _, t := range tx.turns {
			if t.Workspace == n.id && isOpen(t) && !tx.isOver(ctx, t) {
				return segno.NewError(segno.KindRefused, string(ask.Verb), n.root, &TurnOpenError{t}).WithHint(hintRunning)
			}
		}
	}
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
	if n.turns == nil {
		var err error
		if n.turns, err = o.endedTurns(ctx, n.id); err != nil {
			return nil, err
		}
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
