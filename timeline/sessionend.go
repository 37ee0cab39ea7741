package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// CaptureTurnEnd stores the record of the end of a thread's newest turn, if the thread's agent wrote it
// after the hook that captured the turn. It reports whether it stored something. It does not use the
// workspace.
func (tl *Timeline) CaptureTurnEnd(ctx context.Context, thread segno.ThreadID) (bool, error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return false, err
	}
	defer tx.unlock()
	if err := tx.loadTurns(ctx); err != nil {
		return false, err
	}
	s, err := tx.threadState(ctx, thread)
	if err != nil {
		return false, err
	}
	head := s.head.Head
	s, err = tx.captureTurnEnd(ctx, s)
	return s.head.Head != head, err
}

// captureTurnEnd completes the session tier of the newest turn of a thread. Some agents record the end
// of a turn after the hook that captured the turn, and a session that is cut without that record looks
// interrupted. captureTurnEnd amends the turn's checkpoint, and the external checkpoints above it, and
// returns the new state of the thread. It returns s if there is nothing to complete.
func (tx *txn) captureTurnEnd(ctx context.Context, s threadState) (threadState, error) {
	line, err := tx.lineToNewestTurn(ctx, s)
	if err != nil || len(line) == 0 {
		return s, err
	}
	p := ownOf(line).Session
	agent, ok := tx.Transcripts[p.Agent].(transcript.TurnEndCapturer)
	if !ok || tx.deferred || s.head.Tip != s.head.Head {
		return s, nil
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	src := segno.Source{Session: p.Session, Path: p.Path, Dir: p.Dir}
	end, err := agent.CaptureTurnEnd(ctx, src, *p, batch)
	switch {
	case segno.KindOf(err) == segno.KindCancelled:
		return s, err
	case err != nil || end.Offset == p.Offset: // a missing or damaged session keeps its captured state
		return s, nil //nolint:nilerr // see the line above
	}
	if fixed, err := tx.isFixed(ctx, line); err != nil || fixed {
		return s, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return s, fmt.Errorf("stage end of turn: %w", err)
	}
	return tx.endAt(ctx, s, line, &end, staged)
}

// endAt amends the checkpoints of a line so that their session ends at end.
func (tx *txn) endAt(ctx context.Context, s threadState, line []*segno.Checkpoint, end *segno.Position, staged segno.Staged) (_ threadState, err error) {
	if s.at, err = tx.checkpoint(ctx, ownOf(line).Parent); err != nil {
		return s, err
	}
	for i, old := range slices.Backward(line) {
		c, err := tx.withPosition(ctx, old, s.head, end)
		if err != nil {
			return s, err
		}
		if c.Parent = s.at.ID; i > 0 { // only the last commit moves the head
			c.Move = &segno.Move{Head: s.head.Head, Tip: s.head.Tip}
		}
		c.Staged, staged = staged, segno.Staged{}
		if s, err = tx.commitOrDefer(ctx, s.head, c); err != nil {
			return s, fmt.Errorf("record end of turn: %w", err)
		}
	}
	return s, nil
}

// lineToNewestTurn returns the checkpoints from the head of a thread to its newest turn, newest first,
// if all checkpoints above the turn are external and have the same position.
func (tx *txn) lineToNewestTurn(ctx context.Context, s threadState) (line []*segno.Checkpoint, err error) {
	c := s.at
	for range maxAmendments {
		if c.ID == "" || c.Session == nil || c.Session.Leaf == "" || c.Session.Log.IsZero() || c.Session.Offset != s.at.Session.Offset {
			return nil, nil
		}
		switch line = append(line, c); c.Kind {
		case segno.CheckpointTurn:
			return line, nil
		case segno.CheckpointExternal:
			if c, err = tx.checkpoint(ctx, c.Parent); err != nil {
				return nil, err
			}
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// isFixed reports whether a name or an open turn refers to one of the checkpoints in line.
func (tx *txn) isFixed(ctx context.Context, line []*segno.Checkpoint) (bool, error) {
	for _, t := range tx.turns {
		if slices.ContainsFunc(line, hasID(t.Parent)) || slices.ContainsFunc(line, hasID(t.Ended)) {
			return true, nil
		}
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil || slices.ContainsFunc(line, hasID(c.ID)) {
			return true, err
		}
	}
	return false, nil
}

// withPosition returns the commit that replaces a checkpoint by one whose session ends at p. The caller
// sets the parent if it changed, and the move if the head must stay.
func (tx *txn) withPosition(ctx context.Context, old *segno.Checkpoint, head segno.Head, p *segno.Position) (segno.Commit, error) {
	cp := *old
	cp.Amends, cp.Session, cp.ID = old.ID, p, ""
	entries, err := tx.commitEntries(ctx, old.ID)
	return segno.Commit{ID: segno.CommitID(segno.DerivedID("amend", string(old.ID), p.Leaf, p.SHA256.String())), Thread: head.Thread,
		Parent: old.Parent, Expect: head.Head, Epoch: head.Epoch, Entries: entries, Checkpoint: &cp}, err
}
