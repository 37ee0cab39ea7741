package timeline

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// planRestore plans to move to any checkpoint of the thread, or to restore one tier or some
// paths from it.
func (tx *txn) planRestore(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	x, err := tx.checkpoint(ctx, ask.To)
	if err != nil {
		return err
	}
	if err := tx.checkRestore(ctx, ask, x, now); err != nil {
		return err
	}
	if ask.Point > 0 {
		at, point, err := tx.atPoint(ctx, x, ask.Point)
		if err != nil {
			return err
		}
		x, p.Point = at, &point
		x.Workspace.World = now.snap.World // the databases at that moment are not known, so they stay
	}
	p.Args = restoreArgs(ask)
	if ask.Scope != ScopeChat {
		changes, err := tx.diffStates(ctx, &now.snap, x.Workspace)
		if err != nil {
			return err
		}
		if err := tx.checkPaths(ctx, ask, x.Tree(), now.snap.Tree); err != nil {
			return err
		}
		if ask.Follow {
			changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return !c.To.HasContent() && isOfMachine(c) })
		}
		p.hideAbove(changes, ask.Paths)
		p.Times, p.goals = x.Workspace.Times, []segno.Hash{x.Tree()}
		p.split(filterPaths(changes, ask.Paths))
		p.dropFull(func(string) bool { return false })
		p.gitThen = x.Workspace.Git
	}
	if ask.Scope == ScopeBoth && len(ask.Paths) == 0 {
		return tx.setRestoreTarget(ctx, x, now, p)
	}
	p.Restore, p.Target, p.Tip, p.Label = true, now.head.Head, segno.Self, "restore "+p.Args
	if ask.Scope == ScopeChat {
		p.Session = x.Session
	}
	return nil
}

// checkRestore returns an error if the checkpoint x cannot satisfy a restore. A checkpoint of
// another workspace contains the files of another project, unless the thread continues from it.
func (tx *txn) checkRestore(ctx context.Context, ask MoveRequest, x *segno.Checkpoint, now currentState) error {
	if x.Thread != now.head.Thread && x.Workspace != nil && x.Workspace.Workspace != tx.Workspace.ID() {
		line, err := tx.line(ctx, now.head.Head)
		if err != nil {
			return err
		}
		tip, err := tx.line(ctx, now.head.Tip)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(append(line, tip...), hasID(x.ID)) {
			return segno.Errorf(segno.KindRefused, "restore", string(x.ID), "it is a checkpoint of %s", x.Workspace.Root).
				WithHint("use 'segno fork' there to have those files in another directory")
		}
	}
	switch chat := ask.Scope == ScopeChat; {
	case !chat && x.Workspace == nil:
		return segno.Errorf(segno.KindNotFound, "restore", string(x.ID), "the checkpoint has no files").
			WithHint("use --chat to move the conversation only")
	case ask.Point > 0 && ask.Scope != ScopeFiles:
		return segno.Errorf(segno.KindRefused, "restore", ask.name(), "a point inside a turn has files only: no session can end there").
			WithHint("leave out --chat, or name the turn")
	case chat && len(ask.Paths) > 0:
		return segno.Errorf(segno.KindInvalid, "restore", "", "--chat takes no paths")
	case chat && x.Session == nil:
		return segno.Errorf(segno.KindRefused, "restore", string(x.ID), "it has no separate agent session: the conversation cannot move without the files").
			WithHint("use 'segno restore' without --chat, or fork there")
	}
	return nil
}

// checkPaths returns an error if a path in ask is in none of the trees, because a typing error
// must not look like a success.
func (tx *txn) checkPaths(ctx context.Context, ask MoveRequest, trees ...segno.Hash) error {
	missing := slices.DeleteFunc(slices.Clone(ask.Paths), func(p string) bool { return p == "." })
	for _, tree := range trees {
		if len(missing) == 0 {
			return nil
		}
		all, err := tx.diff(ctx, segno.Hash{}, tree)
		if err != nil {
			return err
		}
		exists := entities(all)
		missing = slices.DeleteFunc(missing, func(p string) bool { _, ok := exists[p]; return ok })
	}
	if len(missing) == 0 {
		return nil
	}
	return segno.Errorf(segno.KindNotFound, string(ask.Verb), missing[0], "no such path at %s or now", ask.name()).
		WithHint("paths are relative to where you are")
}

// setRestoreTarget makes x the thread's next head. The tip stays if x is one of its ancestors.
func (tx *txn) setRestoreTarget(ctx context.Context, x *segno.Checkpoint, now currentState, p *Plan) error {
	p.setTarget(x, x.ID)
	tip, err := tx.line(ctx, now.head.Tip)
	if slices.ContainsFunc(tip, hasID(x.ID)) {
		p.Tip = now.head.Tip
	}
	return err
}

func restoreArgs(ask MoveRequest) string {
	args := []string{ask.name()}
	if ask.Scope != ScopeBoth {
		args = append(args, "--"+string(ask.Scope))
	}
	if ask.Parts != nil {
		args = append(args, strings.TrimSpace(patchFlag))
	}
	for _, p := range ask.Paths {
		args = append(args, segno.QuotePath(p))
	}
	return strings.Join(args, " ")
}
