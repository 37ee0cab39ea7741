package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// Save makes a checkpoint outside turns, on the current thread of the workspace. If the workspace
// has no thread, Save makes one. It makes a checkpoint even if nothing changed.
func (tl *Timeline) Save(ctx context.Context, kind segno.CheckpointKind, label string) (*segno.Checkpoint, error) {
	return tl.SaveOnce(ctx, kind, label, segno.CommitID(segno.NewID()))
}

// SaveOnce is [Timeline.Save] with the id of the checkpoint. If the store has that checkpoint, SaveOnce returns it.
func (tl *Timeline) SaveOnce(ctx context.Context, kind segno.CheckpointKind, label string, id segno.CommitID) (*segno.Checkpoint, error) {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if tx.pendingErr != nil {
		return nil, tx.pendingErr
	}
	if done, err := tx.checkpoint(ctx, id); segno.KindOf(err) != segno.KindNotFound {
		return done, err
	}
	if err := tx.refuseIncomplete(ctx, "save"); err != nil {
		return nil, err
	}
	if kind == segno.CheckpointSave {
		tx.Workspace.Cover() // the user wants to save the workspace by its current rules
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	s, err := tx.threadForSave(ctx, label, snap, &staged)
	if err == nil {
		s, err = tx.captureTurnEnd(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	head, at := s.head, s.at
	counts, err := tx.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return nil, err
	}
	for _, t := range tx.turns {
		if t.commitsSteps() && t.Thread == head.Thread && !tx.isGone(t) { // the run would find another head
			return nil, segno.Errorf(segno.KindRefused, "save", string(head.Thread), "a run of the thread is in progress").
				WithHint("wait for it to end")
		}
	}
	c := newCommit(head)
	c.ID = id
	c.Parent = head.Head // the head may be a commit without a checkpoint, which stays on the line
	c.Staged, c.Move = staged, &segno.Move{Head: segno.Self, Tip: nextTip(head)}
	c.Checkpoint = &segno.Checkpoint{Kind: kind, Turn: at.Turn, Time: tx.Now(), Agent: at.Agent, Label: label,
		Files: counts, Session: at.Session, Step: at.Step, Members: at.Members, Workspace: &snap}
	c.Workspace = tx.workspaceStateAfter(head.Thread, c.ID, &snap)
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return nil, fmt.Errorf("commit checkpoint: %w", err)
	}
	return tx.checkpoint(ctx, c.ID)
}

// threadForSave returns the thread of the workspace, or starts one if there is none.
func (tx *txn) threadForSave(ctx context.Context, title string, snap segno.Snapshot, staged *segno.Staged) (threadState, error) {
	thread, err := tx.CurrentThread(ctx)
	if err != nil {
		return threadState{}, err
	}
	if thread == "" {
		thread = segno.ThreadID(segno.NewID())
		c := tx.baseCommit(thread, "", title, &snap, tx.Now())
		c.Staged, *staged = *staged, segno.Staged{}
		if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
			return threadState{}, err
		}
	}
	return tx.threadState(ctx, thread)
}

// CurrentThread returns the current thread of the workspace, or "".
func (tl *Timeline) CurrentThread(ctx context.Context) (segno.ThreadID, error) {
	return tl.unlocked().threadAt(ctx, tl.Workspace.ID())
}

// threadAt returns the current thread of a workspace, or "". If that thread was deleted, it returns
// the thread that has the workspace's newest checkpoint.
func (tx *txn) threadAt(ctx context.Context, id segno.WorkspaceID) (segno.ThreadID, error) {
	state, err := tx.stateOf(ctx, id)
	if err != nil || state.Thread == "" {
		return "", err
	}
	_, err = tx.Store.Head(ctx, state.Thread)
	if segno.KindOf(err) != segno.KindNotFound {
		return state.Thread, err
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: id}) {
		if err != nil {
			return "", err
		}
		if _, err := tx.Store.Head(ctx, c.Thread); err == nil {
			return c.Thread, nil
		}
	}
	return "", nil
}

// refuseIncomplete returns [segno.KindRefused] if a pull has not written all files of the thread into the workspace, because it was
// interrupted or still runs. It records the thread first and the files last. A checkpoint would record the missing files as deleted.
func (tx *txn) refuseIncomplete(ctx context.Context, verb string) error {
	state, err := tx.workspaceState(ctx)
	if err != nil || state.Thread == "" || state.Snapshot != nil {
		return err
	}
	s, err := tx.threadState(ctx, state.Thread)
	if segno.KindOf(err) == segno.KindNotFound || err == nil && s.at.Workspace == nil {
		return nil // the thread was deleted, or has no files
	}
	if err != nil {
		return err
	}
	return segno.Errorf(segno.KindRefused, verb, tx.Workspace.Root(), "a pull into this directory has not ended, and files are missing").
		WithHint("run 'segno pull' for the thread again; 'segno fork --to DIR' makes another directory with all files")
}

// workspaceState returns the state of the workspace after the newest commit that recorded one.
func (tx *txn) workspaceState(ctx context.Context) (segno.WorkspaceState, error) {
	return tx.stateOf(ctx, tx.Workspace.ID())
}

func (tx *txn) stateOf(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceState, error) {
	ws, ok := tx.Store.(segno.Workspaces)
	if !ok {
		return segno.WorkspaceState{}, nil
	}
	rec, err := ws.Workspace(ctx, id)
	if err != nil {
		return segno.WorkspaceState{}, fmt.Errorf("read the state of the workspace: %w", err)
	}
	return rec.State, nil
}
