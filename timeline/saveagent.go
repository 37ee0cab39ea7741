package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// AgentSave is one moment of an agent whose runner records it, without hooks or a proxy.
type AgentSave struct {
	Label string
	// Transcript reads the session of the agent; it is nil if the agent does not keep one.
	Transcript segno.Transcript
	Source     segno.Source
}

// SaveAgent makes a checkpoint of the files of the workspace and of the conversation of its agent, outside
// turns, on the current thread of the workspace. If the workspace has no thread, SaveAgent makes one. The
// files and the conversation are from the same moment if the agent is idle or stopped during the call.
func (tl *Timeline) SaveAgent(ctx context.Context, s AgentSave) (cp *segno.Checkpoint, err error) {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if tx.pendingErr != nil {
		return nil, tx.pendingErr
	}
	batch := tx.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	snap, err := tx.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	position, err := tx.captureAgent(ctx, s, batch)
	if err != nil {
		return nil, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage snapshot: %w", err)
	}
	t, err := tx.threadForSave(ctx, s.Label, snap, &staged)
	if err != nil {
		return nil, err
	}
	counts, err := tx.count(ctx, t.at.Tree(), snap.Tree)
	if err != nil {
		return nil, err
	}
	c := newCommit(t.head)
	c.Parent, c.Staged, c.Move = t.head.Head, staged, &segno.Move{Head: segno.Self, Tip: nextTip(t.head)}
	c.Checkpoint = &segno.Checkpoint{Kind: segno.CheckpointCut, Turn: t.at.Turn, Time: tx.Now(), Label: s.Label,
		Files: counts, Session: position, Workspace: &snap}
	if position != nil {
		c.Checkpoint.Agent = position.Agent
	}
	c.Workspace = tx.workspaceStateAfter(t.head.Thread, c.ID, &snap)
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return nil, fmt.Errorf("commit checkpoint: %w", err)
	}
	return tx.checkpoint(ctx, c.ID)
}

// captureAgent stores the new part of an agent's session and returns the position at its end, or nil
// before the first prompt.
func (tx *txn) captureAgent(ctx context.Context, s AgentSave, batch segno.Batch) (*segno.Position, error) {
	if s.Transcript == nil || s.Source.Session == "" {
		return nil, nil
	}
	prev, err := tx.savedPosition(ctx, s.Source.Session)
	if err != nil {
		return nil, err
	}
	// A capture stores positions for turns that are not known. Earlier turns need none here, so all leaves
	// count as known.
	got, err := s.Transcript.Capture(ctx, s.Source, prev, batch, func(string) bool { return true })
	switch {
	case segno.KindOf(err) == segno.KindNotFound, err == nil && got.Position.Leaf == "":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	return &got.Position, nil
}

// savedPosition returns the position of a session in the newest checkpoint of the workspace's thread that
// has one, or nil.
func (tx *txn) savedPosition(ctx context.Context, session segno.SessionID) (*segno.Position, error) {
	thread, err := tx.CurrentThread(ctx)
	if err != nil || thread == "" {
		return nil, err
	}
	s, err := tx.threadState(ctx, thread)
	if err != nil || s.at == nil || s.at.Session == nil || s.at.Session.Session != session {
		return nil, err
	}
	return s.at.Session, nil
}
