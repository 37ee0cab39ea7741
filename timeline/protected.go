package timeline

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// hide adds the steps below directories that are protected now to the plan's hidden paths. The
// rules of the trees from which the steps come then decide about them.
func (p *FilePlan) hide(r *reverter) {
	p.goals = r.targets
	for _, step := range p.Steps {
		for at := step.Path; at != "."; at = path.Dir(at) {
			if r.hidden[at] {
				p.hidden = append(p.hidden, step.Path)
				break
			}
		}
	}
}

// hideAbove adds the directories above some paths that are protected now and that a checkpoint
// saved. changes turn the present state into the checkpoint's.
func (p *FilePlan) hideAbove(changes []segno.Change, paths []string) {
	for _, c := range changes {
		if c.From.Type != segno.EntityProtected || !isSaved(c.To) {
			continue
		}
		for _, at := range paths {
			if isBelow(at, []string{c.Path}) {
				p.hidden = append(p.hidden, c.Path)
			}
		}
	}
}

// snapshotHidden saves the workspace by the rules of other times. It saves each path that one of
// the goals or the present state saved, so that the move may overwrite it.
func (tx *txn) snapshotHidden(ctx context.Context, goals []segno.Hash, now currentState) (segno.Snapshot, segno.Staged, error) {
	if err := tx.keepStaged(ctx, now.staged); err != nil { // so that the tree of the present state can be read
		return segno.Snapshot{}, segno.Staged{}, err
	}
	with := []segno.Coverage{{Tree: now.snap.Tree, Strict: true}}
	for _, tree := range goals {
		with = append(with, segno.Coverage{Tree: tree, Strict: true})
	}
	tx.Workspace.Cover(with...)
	return tx.snapshot(ctx)
}

// reverseUnsaved adds the differences between target and the present state below the paths that
// target saved and the turn's end did not. Such a path is a conflict, because the turn or the
// user may have changed it.
func (r *reverter) reverseUnsaved(ctx context.Context, target segno.Hash, changes []segno.Change) error {
	var unsaved []string
	for _, c := range changes {
		if isSaved(c.From) && c.To.Type == segno.EntityProtected {
			unsaved = append(unsaved, c.Path)
		}
	}
	if len(unsaved) == 0 {
		return nil
	}
	direct, err := r.diff(ctx, target, r.now.snap.Tree)
	if err != nil {
		return err
	}
	for _, c := range direct {
		if c.To.Type == segno.EntityProtected || !isBelow(c.Path, unsaved) {
			continue
		}
		f := &reversal{present: c.To, want: c.To, forced: c.From}
		if r.force {
			f.want = c.From
		} else {
			f.conflict = "it was not saved when the turn ended"
		}
		r.files[c.Path] = f
	}
	return nil
}

// isAt reports whether the present state of the workspace, now, equals the state at of a checkpoint. It ignores
// what one machine has and another one lacks, and what the plan does not write: see [isOfMachine]. So a move records nothing
// for it, and a thread that two machines exchange gets a commit only if something was changed.
func (tx *txn) isAt(ctx context.Context, p *Plan, at, now *segno.Snapshot) (bool, error) {
	if at.Equals(now) || !hasTree(at) || !hasTree(now) {
		return at.Equals(now), nil
	}
	other := *now
	if other.Tree = at.Tree; !at.Equals(&other) { // their databases differ
		return false, nil
	}
	changes, err := tx.diff(ctx, at.Tree, now.Tree)
	written := entities(p.Steps)
	return err == nil && !slices.ContainsFunc(changes, func(c segno.Change) bool {
		_, isWritten := written[c.Path]
		return isWritten || !isOfMachine(c)
	}), err
}

// savedTree returns the tree of the checkpoint at which a move began if the workspace was there, and the scanned tree otherwise. A
// collection keeps the trees of checkpoints.
func (tx *txn) savedTree(ctx context.Context, p *Plan, at segno.Pointers) (segno.Hash, error) {
	c, err := tx.checkpoint(ctx, at.Head)
	if err != nil || c.Workspace == nil {
		return at.Tree, err
	}
	isThere, err := tx.isAt(ctx, p, c.Workspace, &segno.Snapshot{Tree: at.Tree, World: c.Workspace.World})
	if err != nil || !isThere {
		return at.Tree, err
	}
	return c.Tree(), nil
}

// isOfMachine reports whether a path differs only in what a copy of the thread on another machine does not have: content that
// is protected in both states, or the bits setuid and setgid, which a new directory does not get.
func isOfMachine(c segno.Change) bool {
	return !isSaved(c.From) && !isSaved(c.To) || withoutSetIDs(c.From) == withoutSetIDs(c.To)
}

// withoutSetIDs returns an entity without the bits setuid and setgid, and without the owner that they are about.
func withoutSetIDs(e segno.Entity) segno.Entity {
	e.Mode, e.Owner = e.Mode&^SetIDs, segno.Owner{}
	return e
}

// isBelow reports whether p equals one of some paths or is below one.
func isBelow(p string, paths []string) bool {
	return slices.ContainsFunc(paths, func(at string) bool { return p == at || strings.HasPrefix(p, at+"/") })
}
