package timeline

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/dalsegno/segno"
)

// This file is about moves over paths that were saved once and are only recorded as
// protected at another time.

// hideChanges remembers which paths the present protects although a turn's checkpoint saved
// them, given what changed since that checkpoint.
func (r *reverter) hide(since []segno.Change) {
	if r.hidden == nil {
		r.hidden = map[string]bool{}
	}
	for _, c := range since {
		if isSaved(c.From) && c.To.Type == segno.EntityProtected {
			r.hidden[c.Path] = true
		}
	}
}

// hideChanges adds the steps that lead into what the present protects to the plan's hidden
// paths, which are then judged by the rules of the trees that the steps come from.
func (p *Plan) hide(r *reverter) {
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

// hideAbove adds the directories above some paths that the present protects, given
// what differs between it and a checkpoint that saved them.
func (p *Plan) hideAbove(changes []segno.Change, paths []string) {
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

// snapshotHidden saves the workspace by the rules of other times: what one of the goals or
// the present saved is saved, so that the move may overwrite it.
func (tx *txn) snapshotHidden(ctx context.Context, goals []segno.Hash, now currentState) (snap segno.Snapshot, staged segno.Staged, err error) {
	if err := tx.keepStaged(ctx, now.staged); err != nil { // so that the present's own tree can be read
		return snap, staged, err
	}
	with := []segno.Coverage{{Tree: now.snap.Tree, Strict: true}}
	for _, tree := range goals {
		with = append(with, segno.Coverage{Tree: tree, Strict: true})
	}
	tx.cover(with...)
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	if snap, err = tx.Workspace.Snapshot(ctx, batch); err != nil {
		return snap, staged, fmt.Errorf("snapshot workspace: %w", err)
	}
	if staged, err = batch.Stage(ctx); err != nil {
		return snap, staged, fmt.Errorf("stage snapshot: %w", err)
	}
	return snap, staged, nil
}

// reverseUnsaved adds what differs between target and the present below the paths
// that target saved and the turn's end did not. Whether the turn or the user changed
// such a path is not known, so that it is a conflict.
func (tx *txn) reverseUnsaved(ctx context.Context, r *reverter, target segno.Hash, changes []segno.Change, now currentState) error {
	var unsaved []string
	for _, c := range changes {
		if isSaved(c.From) && c.To.Type == segno.EntityProtected {
			unsaved = append(unsaved, c.Path)
		}
	}
	if len(unsaved) == 0 {
		return nil
	}
	direct, err := tx.Workspace.Diff(ctx, target, now.snap.Tree)
	if err != nil {
		return fmt.Errorf("compare workspace: %w", err)
	}
	for _, c := range direct {
		if c.To.Type == segno.EntityProtected || !isBelow(c.Path, unsaved) {
			continue
		}
		r.now[c.Path], r.want[c.Path], r.forced[c.Path] = c.To, c.To, c.From
		if r.force {
			r.want[c.Path] = c.From
		} else {
			r.conflicts[c.Path] = "it was not saved when the turn ended"
		}
	}
	return nil
}

// isBelow reports whether p is one of some paths, or in one of them.
func isBelow(p string, paths []string) bool {
	for _, at := range paths {
		if p == at || strings.HasPrefix(p, at+"/") {
			return true
		}
	}
	return false
}
