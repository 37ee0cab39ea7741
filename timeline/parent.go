package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// resolveThread names the thread of a turn that began when it was not known, or
// could not be asked for. A thread this very turn began to make, before its end
// was broken off, is still to be finished and counts as not known.
func (r *txn) resolveThread(ctx context.Context, turn *OpenTurn) error {
	if turn.Thread != "" {
		return nil
	}
	thread, err := r.threadWithDeferred(ctx, turn.Source.Session)
	if err != nil || thread == "" {
		return err
	}
	base, err := r.checkpointWithDeferred(ctx, baseID(thread))
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
func (r *txn) resolveParent(ctx context.Context, w *turnEnd) (err error) {
	if w.turn.Thread == "" {
		// An end that was broken off may have made the thread already; making it
		// again gives the same commits.
		if w.head, w.parent, err = r.startThread(ctx, w); err != nil {
			return fmt.Errorf("start thread: %w", err)
		}
		return nil
	}
	if w.head, w.parent, err = r.headAndCheckpoint(ctx, w.turn.Thread); err != nil {
		return err
	}
	at := w.turn.Parent
	if w.done != nil {
		at = w.done.Parent
	}
	if at != "" {
		if w.parent, err = r.checkpointWithDeferred(ctx, at); err != nil {
			return err
		}
	}
	if w.done != nil {
		return nil
	}
	if err := r.followRewind(ctx, w); err != nil {
		return err
	}
	return r.linkSession(ctx, w)
}

// followRewind moves the parent when the user went back inside the agent first:
// the prompt then hangs from an older record than the parent's.
func (r *txn) followRewind(ctx context.Context, w *turnEnd) error {
	p := w.parent.Session
	if w.got.Prompt == "" || p == nil || w.got.Follows == p.Leaf {
		return nil
	}
	if w.got.Follows == "" {
		began, err := r.firstLinkOf(ctx, w.head, w.turn.Source.Session)
		if err != nil {
			return err
		}
		if began != nil && began.Fidelity == segno.FidelityPreamble && began.At != "" {
			// Its first record follows nothing: what came before it was only told.
			if p.Session == w.turn.Source.Session {
				w.parent, err = r.checkpointWithDeferred(ctx, began.At)
			}
			return err
		}
	}
	line, err := r.line(ctx, w.parent.ID)
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
	found, err := r.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return above[c.ID] })
	if found == nil && err == nil {
		found, err = r.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return c.Thread == w.head.Thread })
	}
	if found != nil {
		w.parent = found
	}
	return err
}

// linkSession commits an external checkpoint between the parent and the turn if the
// workspace at the turn's beginning was not what the parent pins.
func (r *txn) linkSession(ctx context.Context, w *turnEnd) error {
	before := w.turn.Before
	if before == nil || w.parent.Tree() == before.Tree {
		return nil
	}
	c, err := r.externalCommit(ctx, w.head, w.parent, *before, w.turn.Key)
	if err != nil {
		return err
	}
	c.Checkpoint.Time = w.startTime(r.Now())
	c.Workspace = nil
	c.Move = nil
	c.Staged, w.staged = w.staged, segno.Staged{}
	if w.head, _, err = r.commitIdempotent(ctx, w.head, c); err != nil {
		return err
	}
	w.parent, err = r.checkpointWithDeferred(ctx, c.ID)
	return err
}

// shared reports whether a turn of another thread overlapped in the workspace.
func (r *txn) shared(ctx context.Context, w *turnEnd) (bool, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return false, err
	}
	own := turnIdentity{w.head.Thread, w.turn.Source.Session}
	for _, t := range turns {
		same := t.Source.Session == w.turn.Source.Session && t.Source.Session != ""
		if t.Workspace != w.turn.Workspace || t.Key == w.turn.Key || same || own.sameAs(t.identity()) {
			continue
		}
		if works, err := r.isWorking(ctx, t); works || err != nil {
			return works, err
		}
	}
	if w.turn.Start.IsZero() {
		return false, nil
	}
	const most = 16 // older ones that are looked at: a commit that had to wait is newer than its time
	older := 0
	for c, err := range r.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: w.turn.Workspace}) {
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
