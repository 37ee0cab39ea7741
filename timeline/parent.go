package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// resolveThread finds the thread of a turn that began without one. A thread that an
// interrupted end of this same turn began to make counts as unknown, so that this end
// completes it.
func (tx *txn) resolveThread(ctx context.Context, turn *OpenTurn) error {
	if turn.Thread != "" {
		return nil
	}
	thread, err := tx.threadWithDeferred(ctx, turn.Source.Session)
	if err != nil || thread == "" {
		return err
	}
	base, err := tx.checkpointWithDeferred(ctx, baseID(thread))
	if segno.KindOf(err) == segno.KindNotFound {
		turn.Thread = thread // a fork's
		return nil
	}
	if err == nil && (turn.Start.IsZero() || !base.Time.Equal(turn.Start)) {
		turn.Thread = thread
	}
	return err
}

// resolveParent decides the thread and the parent of the turn.
func (tx *txn) resolveParent(ctx context.Context, w *turnEnd) (err error) {
	if w.turn.Thread == "" {
		// An interrupted end may have made the thread already. Making it again gives
		// the same commits.
		if w.head, w.parent, err = tx.startThread(ctx, w); err != nil {
			return fmt.Errorf("start thread: %w", err)
		}
		return nil
	}
	if w.head, w.parent, err = tx.headAndCheckpoint(ctx, w.turn.Thread); err != nil {
		return err
	}
	at := w.turn.Parent
	if w.done != nil {
		at = w.done.Parent
	}
	if at != "" {
		if w.parent, err = tx.checkpointWithDeferred(ctx, at); err != nil {
			return err
		}
	}
	if w.done != nil {
		return nil
	}
	if err := tx.followRewind(ctx, w); err != nil {
		return err
	}
	return tx.linkSession(ctx, w)
}

// followRewind moves the parent when the user went back inside the agent first:
// the prompt then hangs from an older record than the parent's.
func (tx *txn) followRewind(ctx context.Context, w *turnEnd) error {
	p := w.parent.Session
	if w.got.Prompt == "" || p == nil || w.got.Follows == p.Leaf {
		return nil
	}
	if w.got.Follows == "" {
		began, err := tx.firstLinkOf(ctx, w.head, w.turn.Source.Session)
		if err != nil {
			return err
		}
		if began != nil && began.Fidelity == segno.FidelityPreamble && began.At != "" {
			// Its first record follows nothing: what came before it was only told.
			if p.Session == w.turn.Source.Session {
				w.parent, err = tx.checkpointWithDeferred(ctx, began.At)
			}
			return err
		}
	}
	line, err := tx.line(ctx, w.parent.ID)
	if err != nil {
		return err
	}
	if w.got.Follows == "" {
		w.parent = line[len(line)-1]
		return nil
	}
	above := map[segno.CommitID]bool{}
	for _, c := range line {
		above[c.ID] = true
	}
	found, err := tx.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return above[c.ID] })
	if found == nil && err == nil {
		found, err = tx.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return c.Thread == w.head.Thread })
	}
	if found != nil {
		w.parent = found
	}
	return err
}

// linkSession commits an external checkpoint between the parent and the turn if the
// workspace at the turn's beginning was not what the parent pins.
func (tx *txn) linkSession(ctx context.Context, w *turnEnd) error {
	before := w.turn.Before
	if before == nil || w.parent.Tree() == before.Tree {
		return nil
	}
	c, err := tx.externalCommit(ctx, w.head, w.parent, *before, w.turn.Key)
	if err != nil {
		return err
	}
	c.Checkpoint.Time = w.startTime(tx.Now())
	c.Workspace = nil
	c.Move = nil
	c.Staged, w.staged = w.staged, segno.Staged{}
	if w.head, _, err = tx.commitIdempotent(ctx, w.head, c); err != nil {
		return err
	}
	w.parent, err = tx.checkpointWithDeferred(ctx, c.ID)
	return err
}

// shared reports whether a turn of another thread overlapped in the workspace.
func (tx *txn) shared(ctx context.Context, w *turnEnd) (bool, error) {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return false, err
	}
	own := turnIdentity{w.head.Thread, w.turn.Source.Session}
	for _, t := range turns {
		same := t.Source.Session == w.turn.Source.Session && t.Source.Session != ""
		if t.Workspace != w.turn.Workspace || t.Key == w.turn.Key || same || own.sameAs(t.identity()) {
			continue
		}
		if works, err := tx.isWorking(ctx, t); works || err != nil {
			return works, err
		}
	}
	if w.turn.Start.IsZero() {
		return false, nil
	}
	const most = 16 // older ones to examine: a deferred commit has an older time than its neighbours
	older := 0
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: w.turn.Workspace}) {
		if err != nil {
			return false, err
		}
		if c.Time.After(w.turn.Start) {
			if c.Kind == segno.CheckpointTurn && c.Thread != w.head.Thread && !own.sameAs(identityOf(&c)) {
				return true, nil
			}
		} else if older++; older == most {
			break
		}
	}
	return false, nil
}
