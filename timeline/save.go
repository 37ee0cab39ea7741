package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// Save makes a checkpoint outside turns, on the thread the workspace is at; a
// workspace without one gets a thread. It is made also when nothing changed.
func (tl *Timeline) Save(ctx context.Context, kind segno.CheckpointKind, label string) (*segno.Checkpoint, error) {
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if kind == segno.CheckpointSave {
		tx.cover() // the user asks to save the workspace as it is, with its present rules
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	snap, err := tx.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage snapshot: %w", err)
	}
	head, at, err := tx.threadForSave(ctx, label, snap, &staged)
	if err != nil {
		return nil, err
	}
	counts, err := tx.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	id := segno.CommitID(segno.NewID())
	tip := head.Tip
	if head.Tip == head.Head {
		tip = segno.Self
	}
	if err := tx.refuseOpenTurn(ctx, head.Thread); err != nil {
		return nil, err
	}
	// The head may be a commit without a checkpoint, which stays on the line.
	c := segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Staged: staged,
		Checkpoint: &segno.Checkpoint{Kind: kind, Turn: at.Turn, Time: tx.Now(), Agent: at.Agent, Label: label,
			Files: counts, Session: at.Session, Step: at.Step, Members: at.Members, Workspace: &snap},
		Move: &segno.Move{Head: segno.Self, Tip: tip}, Workspace: tx.workspaceStateAfter(head.Thread, id, &snap)}
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return nil, fmt.Errorf("commit checkpoint: %w", err)
	}
	return tx.checkpoint(ctx, id)
}

// refuseOpenTurn refuses to make a checkpoint in the midst of a Go agent's run: the run
// would find another head than it left.
func (tx *txn) refuseOpenTurn(ctx context.Context, thread segno.ThreadID) error {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.commitsSteps() && t.Thread == thread && !tx.isGone(t) {
			return segno.Errorf(segno.KindRefused, "save", string(thread), "a run is at work on the thread").WithHint("wait for it to end")
		}
	}
	return nil
}

// threadForSave returns the thread of the workspace, and starts one if there is none.
func (tx *txn) threadForSave(ctx context.Context, title string, snap segno.Snapshot, staged *segno.Staged) (segno.Head, *segno.Checkpoint, error) {
	thread, err := tx.CurrentThread(ctx)
	if err != nil {
		return segno.Head{}, nil, err
	}
	var head segno.Head
	if thread == "" {
		c := tx.baseCommit(segno.ThreadID(segno.NewID()), "", title, &snap, tx.Now())
		c.Staged, *staged = *staged, segno.Staged{}
		head, err = tx.commitRetryingCAS(ctx, c)
	} else {
		head, err = tx.Store.Head(ctx, thread)
	}
	if err != nil {
		return head, nil, err
	}
	at, err := tx.checkpoint(ctx, head.Head)
	return head, at, err
}

// CurrentThread returns the thread the workspace is at, or "".
func (tl *Timeline) CurrentThread(ctx context.Context) (segno.ThreadID, error) {
	tx := tl.begin()
	state, err := tx.workspaceState(ctx)
	return state.Thread, err
}

func (tx *txn) workspaceState(ctx context.Context) (segno.WorkspaceState, error) {
	ws, ok := tx.Store.(segno.Workspaces)
	if !ok {
		return segno.WorkspaceState{}, nil
	}
	rec, err := ws.Workspace(ctx, tx.Workspace.ID())
	if err != nil {
		return segno.WorkspaceState{}, fmt.Errorf("read the state of the workspace: %w", err)
	}
	return rec.State, nil
}

// lastSnapshot is what the workspace held when segno last looked, or nil.
func (tx *txn) lastSnapshot(ctx context.Context) (*segno.Snapshot, error) {
	state, err := tx.workspaceState(ctx)
	return state.Snapshot, err
}
