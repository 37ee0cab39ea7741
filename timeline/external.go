package timeline

import (
	"context"

	"github.com/dalsegno/segno"
)

// externalCommit returns a commit that records a change of the workspace since checkpoint at
// that the thread's agent did not make.
func (tx *txn) externalCommit(ctx context.Context, s threadState, snap segno.Snapshot, salt segno.TurnKey) (segno.Commit, error) {
	head, at := s.head, s.at
	counts, err := tx.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return segno.Commit{}, err
	}
	state := snap.Tree.String()
	if snap.World != nil {
		state += snap.World.Data.String()
	}
	id := segno.CommitID(segno.DerivedID("external", string(at.ID), state, string(salt)))
	return segno.Commit{
		ID: id, Thread: head.Thread, Parent: at.ID, Expect: head.Head, Epoch: head.Epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: at.Turn, Time: tx.Now(), Agent: at.Agent,
			Files: counts, Session: at.Session, Workspace: &snap, Step: at.Step, Members: at.Members},
		Move:      &segno.Move{Head: segno.Self, Tip: nextTip(head)},
		Workspace: tx.workspaceStateAfter(head.Thread, id, &snap),
	}, nil
}

// commitExternal commits or defers the commit of externalCommit.
func (tx *txn) commitExternal(ctx context.Context, s threadState, snap segno.Snapshot, staged segno.Staged, salt segno.TurnKey) (threadState, error) {
	c, err := tx.externalCommit(ctx, s, snap, salt)
	if err != nil {
		return s, err
	}
	c.Staged = staged
	return tx.commitOrDefer(ctx, s.head, c)
}

// commitExternalChanges commits an external checkpoint if the workspace differs from the head
// of a thread.
func (tx *txn) commitExternalChanges(ctx context.Context, thread segno.ThreadID, salt segno.TurnKey) error {
	s, err := tx.threadState(ctx, thread)
	if err != nil {
		return err
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return err
	}
	if s.at.Workspace == nil || s.at.Workspace.Equals(&snap) {
		return tx.keepStaged(ctx, staged)
	}
	_, err = tx.commitExternal(ctx, s, snap, staged, salt)
	return err
}
