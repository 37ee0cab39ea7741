package timeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Snapshot saves the current state of the workspace, including the paths that were saved when its open
// turns began. The objects can be read on return.
func (tl *Timeline) Snapshot(ctx context.Context) (segno.Snapshot, error) {
	tx, err := tl.lock(ctx, func(tx *txn) error { return tx.coverTurns(ctx) })
	if err != nil {
		return segno.Snapshot{}, err
	}
	defer tx.unlock()
	snap, staged, err := tx.snapshot(ctx)
	if err == nil {
		err = tx.keepStaged(ctx, staged)
	}
	return snap, err
}

// SnapshotBase is Snapshot for a workspace in which an agent is enabled. If the next event is the end
// of a turn whose beginning was not recorded, that turn begins with this state.
func (tl *Timeline) SnapshotBase(ctx context.Context) (segno.Snapshot, error) {
	snap, err := tl.Snapshot(ctx)
	if err != nil {
		return snap, err
	}
	return snap, tl.Spool.KeepBase(ctx, Base{Snapshot: snap, Time: tl.Now()})
}

// knownState returns the newest known state of the workspace and its time: the state of its newest commit, or of a
// later base. The state is nil if there is none.
func (tx *txn) knownState(ctx context.Context) (*segno.Snapshot, time.Time, error) {
	state, err := tx.workspaceState(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	base, err := tx.Spool.Base(ctx, tx.Workspace.ID())
	if err != nil || base == nil || state.Snapshot != nil && !base.Time.After(state.Time) {
		return state.Snapshot, state.Time, err
	}
	if kept, err := tx.Store.Objects().Has(ctx, base.Snapshot.Tree); !kept || err != nil {
		return state.Snapshot, state.Time, err
	}
	return &base.Snapshot, base.Time, nil
}

// coverTurns makes the workspace keep saving the paths that it saved when its open turns began or, if
// no turn is open, the paths of its newest commit. A rule that appears while a turn is open may be the
// agent's, so it must not remove paths from the turn's checkpoint.
func (tx *txn) coverTurns(ctx context.Context) error {
	var with []segno.Coverage
	for _, t := range tx.turns {
		if t.Workspace == tx.Workspace.ID() && t.Before != nil {
			with = append(with, segno.Coverage{Tree: t.Before.Tree, Strict: true})
		}
	}
	if len(with) == 0 {
		state, err := tx.workspaceState(ctx)
		if err != nil {
			return err
		}
		if state.Snapshot != nil {
			with = append(with, segno.Coverage{Tree: state.Snapshot.Tree})
		}
	}
	tx.Workspace.Cover(with...)
	return nil
}

// unsavedWarning returns a warning that n files, which were saved before, are no longer saved. It
// returns "" if n is 0.
func unsavedWarning(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "segno: 1 file that was recorded before is protected now, and changes to it are not recorded; see 'segno status'"
	}
	return fmt.Sprintf("segno: %d files that were recorded before are protected now, and changes to them are not recorded; see 'segno status'", n)
}

// joinWarnings returns the warnings that are not empty, one on each line.
func joinWarnings(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), "\n")
}

// coverageWarning returns a warning about paths that a rule has protected since a turn, or "".
func coverageWarning(before *segno.Snapshot, end *segno.Checkpoint) string {
	if text := unsavedWarning(end.Files.Protected); text != "" {
		return text
	}
	for _, path := range end.Workspace.Held {
		if before == nil || !slices.Contains(before.Held, path) {
			return fmt.Sprintf("segno: a rule that appeared during this turn protects %q; it is recorded all the same, and 'segno save' accepts the rule", path)
		}
	}
	return ""
}
