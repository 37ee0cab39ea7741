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

// BeginSteps opens a turn of a Go agent, which commits its own steps: if files moved
// since the thread's head an external checkpoint says so first. t names thread, key
// and process; a turn that is open under the key goes on. It is durable on return.
func (tl *Timeline) BeginSteps(ctx context.Context, t OpenTurn) error {
	r, err := tl.lockForRecord(ctx)
	if err != nil {
		return err
	}
	defer r.unlock()
	if r.stuck != nil {
		return r.stuck
	}
	head, at, err := r.headAndCheckpoint(ctx, t.Thread)
	if err != nil {
		return err
	}
	snap, staged, err := r.snapshot(ctx)
	if err != nil {
		return err
	}
	t.Workspace, t.Before, t.Start, t.Parent = r.Workspace.ID(), &snap, r.Now(), head.Head
	if head, at, err = r.recordMoveBeforeSteps(ctx, head, at, snap); err != nil {
		return fmt.Errorf("record files: %w", err)
	}
	before, err := r.treeAt(ctx, head.Head)
	if err != nil {
		return err
	}
	if before == snap.Tree || at.Kind == segno.CheckpointStep && at.Tree().IsZero() {
		// What a run that was killed left in the files is the turn's own.
		err = r.keepStaged(ctx, staged)
	} else {
		var c segno.Commit
		if c, err = r.externalCommit(ctx, head, at, snap, segno.TurnKey(segno.NewID())); err != nil {
			return err
		}
		c.Staged, c.Parent = staged, head.Head // a Go agent also commits what is no checkpoint
		_, err = r.commitRetryingCAS(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("record files: %w", err)
	}
	return r.Spool.Open(ctx, t)
}

// recordMoveBeforeSteps commits what other threads did to the files since the thread's head.
func (r *txn) recordMoveBeforeSteps(ctx context.Context, head segno.Head, at *segno.Checkpoint, snap segno.Snapshot) (segno.Head, *segno.Checkpoint, error) {
	c, err := r.movedCommit(ctx, head, at, at, snap, segno.TurnKey(segno.NewID()))
	if err != nil || c == nil || at.Tree() == snap.Tree {
		return head, at, err
	}
	c.Parent = head.Head // a Go agent also commits what is no checkpoint
	if head, err = r.commitRetryingCAS(ctx, *c); err != nil {
		return head, at, err
	}
	return head, checkpointOf(c), nil
}

// CommitStep commits c with the workspace as it is now in its checkpoint. Unlike
// what a hook records it is a compare-and-swap and nothing else: a writer that is
// too late gets [KindConflict].
// turn is the key of the open turn that c is part of, "" if it is of none.
func (tl *Timeline) CommitStep(ctx context.Context, c segno.Commit, turn segno.TurnKey) (segno.Head, error) {
	r, err := tl.lockForRecord(ctx)
	if err != nil {
		return segno.Head{}, err
	}
	defer r.unlock()
	if r.stuck != nil {
		return segno.Head{}, r.stuck
	}
	snap, staged, err := r.snapshot(ctx)
	if err != nil {
		return segno.Head{}, err
	}
	cp := *c.Checkpoint
	if c.Parent != "" {
		before, err := r.treeAt(ctx, c.Parent)
		if err != nil {
			return segno.Head{}, err
		}
		if cp.Files, err = r.count(ctx, before, snap.Tree); err != nil {
			return segno.Head{}, fmt.Errorf("compare workspace: %w", err)
		}
	}
	if c.Create != nil {
		made := *c.Create
		made.Workspace = r.Workspace.ID()
		c.Create = &made
	}
	cp.Workspace = &snap
	if cp.Shared, err = r.sharedWith(ctx, turn, c.Thread); err != nil {
		return segno.Head{}, err
	}
	c.Checkpoint, c.Staged, c.Workspace = &cp, joinStaged(c.Staged, staged), r.workspaceStateAfter(c.Thread, c.ID, &snap)
	return r.Store.Commit(ctx, c)
}

// sharedWith reports whether a turn of another thread overlapped with the one under a
// key in the workspace.
func (r *txn) sharedWith(ctx context.Context, key segno.TurnKey, thread segno.ThreadID) (bool, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil || key == "" {
		return false, err
	}
	w := &turnEnd{turn: OpenTurn{Key: key, Thread: thread, Workspace: r.Workspace.ID()}, head: segno.Head{Thread: thread}}
	for _, t := range turns {
		if t.Key == key {
			w.turn.Start = t.Start
		}
	}
	return r.shared(ctx, w)
}

// EndSteps forgets that a turn is open: nobody works on it any more, whether it is
// over or waits.
func (tl *Timeline) EndSteps(ctx context.Context, key segno.TurnKey) error {
	return tl.Spool.Close(ctx, key)
}

// snapshot saves the workspace.
func (r *txn) snapshot(ctx context.Context) (snap segno.Snapshot, staged segno.Staged, err error) {
	batch := r.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	if snap, err = r.Workspace.Snapshot(ctx, batch); err != nil {
		return snap, staged, fmt.Errorf("snapshot workspace: %w", err)
	}
	if staged, err = batch.Stage(ctx); err != nil {
		return snap, staged, fmt.Errorf("stage snapshot: %w", err)
	}
	return snap, staged, nil
}

// treeAt is the newest tree at or above a commit: steps have none of their own.
func (s *txn) treeAt(ctx context.Context, at segno.CommitID) (segno.Hash, error) {
	for last := 16; ; last *= 8 {
		line, err := s.Store.Load(ctx, at, segno.Window{Last: last})
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
