package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// Save makes a checkpoint outside turns, on the thread the workspace is at; a
// workspace without one gets a thread. It is made also when nothing changed.
func (tl *Timeline) Save(ctx context.Context, kind segno.CheckpointKind, label string) (*segno.Checkpoint, error) {
	r, err := tl.lockForRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer r.unlock()
	if kind == segno.CheckpointSave {
		r.cover() // the user says that the workspace is what it should be, rules included
	}
	batch := r.Store.Objects().Batch()
	defer batch.Close()
	snap, err := r.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage snapshot: %w", err)
	}
	head, at, err := r.threadForSave(ctx, label, snap, &staged)
	if err != nil {
		return nil, err
	}
	counts, err := r.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	id := segno.CommitID(segno.NewID())
	tip := head.Tip
	if head.Tip == head.Head {
		tip = segno.Self
	}
	if err := r.refuseOpenTurn(ctx, head.Thread); err != nil {
		return nil, err
	}
	// A Go agent also commits what is no checkpoint: it stays on the line.
	c := segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Staged: staged,
		Checkpoint: &segno.Checkpoint{Kind: kind, Turn: at.Turn, Time: r.Now(), Agent: at.Agent, Label: label,
			Files: counts, Session: at.Session, Step: at.Step, Members: at.Members, Workspace: &snap},
		Move: &segno.Move{Head: segno.Self, Tip: tip}, Workspace: r.workspaceStateAfter(head.Thread, id, &snap)}
	if _, err := r.commitRetryingCAS(ctx, c); err != nil {
		return nil, fmt.Errorf("commit checkpoint: %w", err)
	}
	return r.checkpoint(ctx, id)
}

// refuseOpenTurn refuses to make a checkpoint in the midst of a Go agent's run: the run
// would find another head than it left.
func (r *txn) refuseOpenTurn(ctx context.Context, thread segno.ThreadID) error {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.commitsSteps() && t.Thread == thread && !r.isGone(t) {
			return segno.Errorf(segno.KindRefused, "save", string(thread), "a run is at work on the thread").WithHint("wait for it to end")
		}
	}
	return nil
}

// threadForSave returns the thread the workspace stands on, and starts one if there
// is none.
func (r *txn) threadForSave(ctx context.Context, title string, snap segno.Snapshot, staged *segno.Staged) (segno.Head, *segno.Checkpoint, error) {
	thread, err := r.CurrentThread(ctx)
	if err != nil {
		return segno.Head{}, nil, err
	}
	var head segno.Head
	if thread == "" {
		c := r.baseCommit(segno.ThreadID(segno.NewID()), "", title, &snap, r.Now())
		c.Staged, *staged = *staged, segno.Staged{}
		head, err = r.commitRetryingCAS(ctx, c)
	} else {
		head, err = r.Store.Head(ctx, thread)
	}
	if err != nil {
		return head, nil, err
	}
	at, err := r.checkpoint(ctx, head.Head)
	return head, at, err
}

// CurrentThread returns the thread the workspace is at, or "".
func (tl *Timeline) CurrentThread(ctx context.Context) (segno.ThreadID, error) {
	s := tl.begin()
	state, err := s.workspaceState(ctx)
	return state.Thread, err
}

func (s *txn) workspaceState(ctx context.Context) (segno.WorkspaceState, error) {
	ws, ok := s.Store.(segno.Workspaces)
	if !ok {
		return segno.WorkspaceState{}, nil
	}
	rec, err := ws.Workspace(ctx, s.Workspace.ID())
	if err != nil {
		return segno.WorkspaceState{}, fmt.Errorf("read what is known of the workspace: %w", err)
	}
	return rec.State, nil
}

// lastSnapshot is what the workspace held when segno last looked, or nil.
func (s *txn) lastSnapshot(ctx context.Context) (*segno.Snapshot, error) {
	state, err := s.workspaceState(ctx)
	return state.Snapshot, err
}
