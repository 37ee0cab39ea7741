package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// commitsSteps reports whether a turn is a Go agent's, which commits its own steps and has no
// session.
func (t *OpenTurn) commitsSteps() bool { return t.Source.Session == "" && t.Thread != "" }

// BeginSteps opens a turn of a Go agent, which commits its own steps. If files changed since
// the thread's head, BeginSteps commits an external checkpoint first. t has the thread, the
// key and the process. An open turn of the same key continues. The open turn is durable
// on return.
func (tl *Timeline) BeginSteps(ctx context.Context, t OpenTurn) error {
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	if tx.stuck != nil {
		return tx.stuck
	}
	head, at, err := tx.headAndCheckpoint(ctx, t.Thread)
	if err != nil {
		return err
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return err
	}
	t.Workspace, t.Before, t.Start, t.Parent = tx.Workspace.ID(), &snap, tx.Now(), head.Head
	if head, at, err = tx.recordMoveBeforeSteps(ctx, head, at, snap); err != nil {
		return fmt.Errorf("record files: %w", err)
	}
	before, err := tx.treeAt(ctx, head.Head)
	if err != nil {
		return err
	}
	if before == snap.Tree || at.Kind == segno.CheckpointStep && at.Tree().IsZero() {
		// What a run that was killed left in the files is the turn's own.
		err = tx.keepStaged(ctx, staged)
	} else {
		var c segno.Commit
		if c, err = tx.externalCommit(ctx, head, at, snap, segno.TurnKey(segno.NewID())); err != nil {
			return err
		}
		c.Staged, c.Parent = staged, head.Head // the head may be a commit without a checkpoint
		_, err = tx.commitRetryingCAS(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("record files: %w", err)
	}
	return tx.Spool.Open(ctx, t)
}

// recordMoveBeforeSteps commits what other threads did to the files since the thread's head.
func (tx *txn) recordMoveBeforeSteps(ctx context.Context, head segno.Head, at *segno.Checkpoint, snap segno.Snapshot) (segno.Head, *segno.Checkpoint, error) {
	c, err := tx.movedCommit(ctx, head, at, at, snap, segno.TurnKey(segno.NewID()))
	if err != nil || c == nil || at.Tree() == snap.Tree {
		return head, at, err
	}
	c.Parent = head.Head // the head may be a commit without a checkpoint
	if head, err = tx.commitRetryingCAS(ctx, *c); err != nil {
		return head, at, err
	}
	return head, checkpointOf(c), nil
}

// CommitStep commits c with the workspace as it is now in its checkpoint. Unlike
// what a hook records it is a compare-and-swap and nothing else: a writer that is
// too late gets [KindConflict].
// turn is the key of the open turn that c is part of, "" if it is of none.
func (tl *Timeline) CommitStep(ctx context.Context, c segno.Commit, turn segno.TurnKey) (segno.Head, error) {
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return segno.Head{}, err
	}
	defer tx.unlock()
	if tx.stuck != nil {
		return segno.Head{}, tx.stuck
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
			return segno.Head{}, fmt.Errorf("compare workspace: %w", err)
		}
	}
	if c.Create != nil {
		made := *c.Create
		made.Workspace = tx.Workspace.ID()
		c.Create = &made
	}
	cp.Workspace = &snap
	if cp.Shared, err = tx.sharedWith(ctx, turn, c.Thread); err != nil {
		return segno.Head{}, err
	}
	c.Checkpoint, c.Staged, c.Workspace = &cp, joinStaged(c.Staged, staged), tx.workspaceStateAfter(c.Thread, c.ID, &snap)
	return tx.Store.Commit(ctx, c)
}

// sharedWith reports whether a turn of another thread overlapped with the one under a
// key in the workspace.
func (tx *txn) sharedWith(ctx context.Context, key segno.TurnKey, thread segno.ThreadID) (bool, error) {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil || key == "" {
		return false, err
	}
	w := &turnEnd{turn: OpenTurn{Key: key, Thread: thread, Workspace: tx.Workspace.ID()}, head: segno.Head{Thread: thread}}
	for _, t := range turns {
		if t.Key == key {
			w.turn.Start = t.Start
		}
	}
	return tx.shared(ctx, w)
}

// EndSteps deletes the record of an open turn that no process works on any more, because the
// turn is over or waits for a decision.
func (tl *Timeline) EndSteps(ctx context.Context, key segno.TurnKey) error {
	return tl.Spool.Close(ctx, key)
}

// snapshot saves the workspace.
func (tx *txn) snapshot(ctx context.Context) (snap segno.Snapshot, staged segno.Staged, err error) {
	batch := tx.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	if snap, err = tx.Workspace.Snapshot(ctx, batch); err != nil {
		return snap, staged, fmt.Errorf("snapshot workspace: %w", err)
	}
	if staged, err = batch.Stage(ctx); err != nil {
		return snap, staged, fmt.Errorf("stage snapshot: %w", err)
	}
	return snap, staged, nil
}

// treeAt returns the newest tree at or above a commit. A step may have no tree.
func (tx *txn) treeAt(ctx context.Context, at segno.CommitID) (segno.Hash, error) {
	for last := 16; ; last *= 8 {
		line, err := tx.Store.Load(ctx, at, segno.Window{Last: last})
		if err != nil {
			return segno.Hash{}, err
		}
		for i := len(line.Commits) - 1; i >= 0; i-- {
			if tree := line.Commits[i].Checkpoint.Tree(); !tree.IsZero() {
				return tree, nil
			}
		}
		if len(line.Commits) < last {
			return segno.Hash{}, nil
		}
	}
}
