package segno

import (
	"context"
	"fmt"
)

// Cut makes a checkpoint outside turns, on the thread the workspace stands on; a
// workspace without one gets a thread. It is made also when nothing changed.
func (r *Recorder) Cut(ctx context.Context, kind CheckpointKind, label string) (*Checkpoint, error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if kind == CheckpointSave {
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
	head, at, err := r.standing(ctx, label, snap, &staged)
	if err != nil {
		return nil, err
	}
	counts, err := r.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	id := CommitID(NewID())
	tip := head.Tip
	if head.Tip == head.Head {
		tip = Self
	}
	if err := r.notAtWork(ctx, head.Thread); err != nil {
		return nil, err
	}
	// A Go agent also commits what is no checkpoint: it stays on the line.
	c := Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Staged: staged,
		Checkpoint: &Checkpoint{Kind: kind, Turn: at.Turn, Time: r.Now(), Agent: at.Agent, Label: label,
			Files: counts, Session: at.Session, Step: at.Step, Members: at.Members, Workspace: &snap},
		Move: &Move{Head: Self, Tip: tip}, Workspace: r.state(head.Thread, id, &snap)}
	if _, err := r.land(ctx, c); err != nil {
		return nil, fmt.Errorf("commit checkpoint: %w", err)
	}
	return r.checkpoint(ctx, id)
}

// notAtWork refuses to make a checkpoint in the midst of a Go agent's run: the run
// would find another head than it left.
func (r *Recorder) notAtWork(ctx context.Context, thread ThreadID) error {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.steps() && t.Thread == thread && !r.gone(t) {
			return Errorf(KindRefused, "save", string(thread), "a run is at work on the thread").WithHint("wait for it to end")
		}
	}
	return nil
}

// standing returns the thread the workspace stands on, and starts one if there
// is none.
func (r *Recorder) standing(ctx context.Context, title string, snap Snapshot, staged *Staged) (Head, *Checkpoint, error) {
	thread, err := r.Thread(ctx)
	if err != nil {
		return Head{}, nil, err
	}
	var head Head
	if thread == "" {
		c := r.base(ThreadID(NewID()), "", title, &snap, r.Now())
		c.Staged, *staged = *staged, Staged{}
		head, err = r.land(ctx, c)
	} else {
		head, err = r.Store.Head(ctx, thread)
	}
	if err != nil {
		return head, nil, err
	}
	at, err := r.checkpoint(ctx, head.Head)
	return head, at, err
}

// Thread returns the thread the workspace stands on, or "".
func (s *Site) Thread(ctx context.Context) (ThreadID, error) {
	state, err := s.workspaceState(ctx)
	return state.Thread, err
}

func (s *Site) workspaceState(ctx context.Context) (WorkspaceState, error) {
	ws, ok := s.Store.(Workspaces)
	if !ok {
		return WorkspaceState{}, nil
	}
	rec, err := ws.Workspace(ctx, s.Workspace.ID())
	if err != nil {
		return WorkspaceState{}, fmt.Errorf("read what is known of the workspace: %w", err)
	}
	return rec.State, nil
}

// lastKnown is what the workspace held when segno last looked, or nil.
func (s *Site) lastKnown(ctx context.Context) (*Snapshot, error) {
	state, err := s.workspaceState(ctx)
	return state.Snapshot, err
}
