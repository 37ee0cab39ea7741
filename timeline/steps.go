package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// commitsSteps reports whether a turn belongs to a Go agent, which commits its own steps and
// has no session.
func (t *OpenTurn) commitsSteps() bool { return t.Source.Session == "" && t.Thread != "" }

// BeginSteps opens a turn of a Go agent, which commits its own steps. If files changed since
// the thread's head, BeginSteps first commits an external checkpoint. t has the thread, the key
// and the process. If a turn with the same key is open, it continues. The open turn is durable
// on return.
func (tl *Timeline) BeginSteps(ctx context.Context, t OpenTurn) error {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	if tx.pendingErr != nil {
		return tx.pendingErr
	}
	s, err := tx.threadState(ctx, t.Thread)
	if err != nil {
		return err
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return err
	}
	t.Workspace, t.Before, t.Start, t.Parent = tx.Workspace.ID(), &snap, tx.Now(), s.head.Head
	if s, err = tx.saveMoved(ctx, s, snap, segno.TurnKey(segno.NewID())); err != nil {
		return err
	}
	before, err := tx.stateAt(ctx, s.head.Head)
	if err != nil {
		return err
	}
	wasKilled := s.at.Kind == segno.CheckpointStep && s.at.Tree().IsZero()
	if wasKilled { // the changes since the state before belong to the turn
		if t.Beside, err = tx.workedBeside(ctx, s.at, t.Key); err != nil {
			return err
		}
	}
	if before.Equals(&snap) || wasKilled {
		err = tx.keepStaged(ctx, staged)
	} else {
		var c segno.Commit
		if c, err = tx.externalCommit(ctx, s, snap, segno.TurnKey(segno.NewID())); err != nil {
			return err
		}
		c.Staged, c.Parent = staged, s.head.Head // the head may be a commit without a checkpoint
		_, err = tx.commitRetryingCAS(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("record files: %w", err)
	}
	if err := tx.closeLeftSteps(ctx, t); err != nil {
		return err
	}
	for _, other := range tx.turns {
		if other.Key != t.Key && tx.isGone(other) {
			t.Left = append(t.Left, other.Key)
		}
	}
	return tx.saveTurn(ctx, t)
}

// closeLeftSteps closes the turns of Go agents on which no run works: another turn of t's thread, because t's run has the lease on
// the thread, and turns after their processes have ended. Otherwise they would count as turns that work beside t. The steps of such a
// turn contain its changes, and a run may continue it.
func (tx *txn) closeLeftSteps(ctx context.Context, t OpenTurn) error {
	for _, left := range tx.turns {
		isOther := left.commitsSteps() && left.Workspace == tx.Workspace.ID() && left.Key != t.Key
		if isOther && (left.Thread == t.Thread || tx.isGone(left)) {
			if err := tx.closeTurn(ctx, left.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// workedBeside reports whether another thread worked in the workspace, or was moved there, since the run that made the step at
// began. Its steps have no state of the files, because the run was killed. key is the key of its open turn, which another process may
// have closed.
func (tx *txn) workedBeside(ctx context.Context, at *segno.Checkpoint, key segno.TurnKey) (bool, error) {
	killed, _ := tx.openTurn(key)
	own := turnIdentity{thread: at.Thread}
	for _, t := range tx.turns {
		isOther := t.Workspace == tx.Workspace.ID() && t.Thread != own.thread && !own.sameAs(t.identity())
		if isOther && !slices.Contains(killed.Left, t.Key) {
			return true, nil // it may have ended since, but was not dead before
		}
	}
	if killed.Beside {
		return true, nil
	}
	first := at
	for n, err := range segno.Ancestors(ctx, tx.Store, at.ID, segno.Window{}) {
		if err != nil {
			return false, err
		}
		if c := n.Checkpoint; c != nil && !c.Tree().IsZero() {
			break
		} else if c != nil {
			first = c
		}
	}
	if beside, err := tx.endedSince(ctx, &OpenTurn{Workspace: tx.Workspace.ID(), Start: first.Time}, own); beside || err != nil {
		return beside, err
	}
	for op, err := range tx.operations(ctx) {
		if err != nil || !op.Time.After(first.Time) {
			return false, err
		}
		if op.MovesFiles() && op.Thread != own.thread {
			return true, nil
		}
	}
	return false, nil
}

// CommitStep commits c, with the current state of the workspace in its checkpoint. Unlike the
// commits of hooks, it is a plain compare-and-swap: if another writer moved the head, the error
// has [segno.KindConflict]. turn is the key of the open turn to which c belongs, or "".
func (tl *Timeline) CommitStep(ctx context.Context, c segno.Commit, turn segno.TurnKey) (segno.Head, error) {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return segno.Head{}, err
	}
	defer tx.unlock()
	if tx.pendingErr != nil {
		return segno.Head{}, tx.pendingErr
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return segno.Head{}, err
	}
	cp := *c.Checkpoint
	if c.Parent != "" {
		before, err := tx.treeAt(ctx, c.Parent)
		if err != nil {
			return segno.Head{}, err
		}
		if cp.Files, err = tx.count(ctx, before, snap.Tree); err != nil {
			return segno.Head{}, err
		}
	}
	if c.Create != nil {
		made := *c.Create
		made.Workspace = tx.Workspace.ID()
		c.Create = &made
	}
	cp.Workspace = &snap
	if turn != "" {
		t, _ := tx.openTurn(turn)
		if cp.Shared, err = tx.overlapsAnother(ctx, &OpenTurn{Key: turn, Workspace: tx.Workspace.ID(), Start: t.Start, Left: t.Left}, c.Thread); err != nil {
			return segno.Head{}, err
		}
		cp.Shared = cp.Shared || t.Beside
	}
	c.Checkpoint, c.Staged, c.Workspace = &cp, joinStaged(c.Staged, staged), tx.workspaceStateAfter(c.Thread, c.ID, &snap)
	return tx.Store.Commit(ctx, c)
}

// EndSteps deletes the record of an open turn on which no process works any longer, because the
// turn is over or waits for a decision.
func (tl *Timeline) EndSteps(ctx context.Context, key segno.TurnKey) error {
	return tl.Spool.DeleteTurn(ctx, key)
}

// treeAt returns the newest tree at or before a commit. A step may have no tree.
func (tx *txn) treeAt(ctx context.Context, at segno.CommitID) (segno.Hash, error) {
	s, err := tx.stateAt(ctx, at)
	if s == nil {
		return segno.Hash{}, err
	}
	return s.Tree, err
}

// stateAt returns the newest state at or before a commit, or nil.
func (tx *txn) stateAt(ctx context.Context, at segno.CommitID) (*segno.Snapshot, error) {
	for n, err := range segno.Ancestors(ctx, tx.Store, at, segno.Window{Last: 16}) {
		if err != nil {
			return nil, err
		}
		if c := n.Checkpoint; !c.Tree().IsZero() {
			return c.Workspace, nil
		}
	}
	return nil, nil
}
