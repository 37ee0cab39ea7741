package timeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// resolveThread finds the thread of a turn that began without one. If an interrupted end of this same
// turn began to make the thread, resolveThread leaves it unknown, so that this end completes it.
func (tx *txn) resolveThread(ctx context.Context, turn *OpenTurn) error {
	if turn.Thread != "" {
		return nil
	}
	thread, err := tx.threadOf(ctx, turn.Source.Session)
	if err != nil || thread == "" {
		return err
	}
	base, err := tx.checkpoint(ctx, baseID(thread))
	switch {
	case segno.KindOf(err) == segno.KindNotFound: // the thread is a fork
		turn.Thread, err = thread, nil
	case err == nil && (turn.Start.IsZero() || !base.Time.Equal(turn.Start)):
		turn.Thread = thread
	}
	return err
}

// resolveParent determines the thread and the parent of the turn.
func (tx *txn) resolveParent(ctx context.Context, w *turnEnd) (err error) {
	if w.turn.Thread == "" {
		// An interrupted end may have made the thread already. Making it again produces the same
		// commits.
		s, err := tx.startThread(ctx, w)
		w.head, w.parent = s.head, s.at
		return err
	}
	s, err := tx.threadState(ctx, w.turn.Thread)
	if err != nil {
		return err
	}
	w.head, w.parent = s.head, s.at
	at := w.turn.Parent
	if w.done != nil {
		at = w.done.Parent
	}
	if at != "" {
		if w.parent, err = tx.checkpoint(ctx, at); err != nil {
			return err
		}
	}
	if w.done != nil {
		return nil
	}
	if err := tx.followRewind(ctx, w); err != nil {
		return err
	}
	return tx.commitChangesBeforeTurn(ctx, w)
}

// followRewind changes the parent if the user returned to an older record in the agent before the
// prompt: the prompt then follows that record.
func (tx *txn) followRewind(ctx context.Context, w *turnEnd) error {
	p := w.parent.Session
	if w.got.Prompt == "" || p == nil || w.got.Follows == p.Leaf {
		return nil
	}
	if w.got.Follows == "" {
		return tx.followRewindToStart(ctx, w)
	}
	line, err := tx.line(ctx, w.parent.ID)
	if err != nil {
		return err
	}
	found, err := tx.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return slices.ContainsFunc(line, hasID(c.ID)) })
	if found == nil && err == nil {
		found, err = tx.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return c.Thread == w.head.Thread })
	}
	if found != nil {
		w.parent = found
	}
	return err
}

// followRewindToStart is followRewind for a prompt that is the first record of a conversation. The
// first prompt of a session that began with a preamble is one, too: it continues from the checkpoint
// that the preamble describes.
func (tx *txn) followRewindToStart(ctx context.Context, w *turnEnd) error {
	began, _, err := tx.linksOf(ctx, w.head, w.turn.Source.Session)
	if err != nil {
		return err
	}
	if began != nil && began.Fidelity == segno.FidelityPreamble && began.At != "" {
		if w.parent.Session.Session == w.turn.Source.Session {
			w.parent, err = tx.checkpoint(ctx, began.At)
		}
		return err
	}
	if at, err := tx.continuedFrom(ctx, began); err != nil || at != nil {
		w.parent = cmp.Or(at, w.parent)
		return err
	}
	line, err := tx.line(ctx, w.parent.ID)
	if err == nil {
		w.parent = line[len(line)-1]
	}
	return err
}

// continuedFrom returns the checkpoint of another agent for which a session was written, or nil. The
// first records of such a session are segno's, so a prompt that follows one of them does not follow a
// known turn.
func (tx *txn) continuedFrom(ctx context.Context, began *segno.Link) (*segno.Checkpoint, error) {
	if began == nil || began.Position == nil || began.At == "" {
		return nil, nil
	}
	at, err := tx.checkpoint(ctx, began.At)
	if err != nil || at.Session != nil && at.Session.Agent == began.Agent {
		return nil, err
	}
	return at, nil
}

// commitChangesBeforeTurn commits the changes that were made before the turn. They become an external
// checkpoint between the parent and the turn, if the workspace differed from the parent when the turn
// began.
func (tx *txn) commitChangesBeforeTurn(ctx context.Context, w *turnEnd) error {
	before := w.turn.Before
	if before == nil || w.parent.Workspace.Equals(before) {
		return nil
	}
	c, err := tx.externalCommit(ctx, threadState{w.head, w.parent}, *before, w.turn.Key)
	if err != nil {
		return err
	}
	c.Checkpoint.Time = w.startTime(tx.Now())
	c.Workspace = nil
	c.Move = nil
	c.Staged, w.staged = w.staged, segno.Staged{}
	s, err := tx.commitIdempotent(ctx, w.head, c)
	if err != nil {
		return err
	}
	w.head = s.head
	w.parent, err = tx.checkpoint(ctx, c.ID)
	return err
}

// isShared reports whether a turn of another thread overlapped in the workspace with a turn of thread.
func (tx *txn) isShared(ctx context.Context, turn *OpenTurn, thread segno.ThreadID) (bool, error) {
	own := turnIdentity{thread, turn.Source.Session}
	for _, t := range tx.turns {
		same := t.Source.Session == own.session && own.session != ""
		if t.Workspace != turn.Workspace || t.Key == turn.Key || same || own.sameAs(t.identity()) {
			continue
		}
		if works, err := tx.isWorking(ctx, t); works || err != nil {
			return works, err
		}
	}
	if turn.Start.IsZero() {
		return false, nil
	}
	return tx.endedSince(ctx, turn, own)
}

// endedSince reports whether a turn of another thread in the workspace ended after turn began.
func (tx *txn) endedSince(ctx context.Context, turn *OpenTurn, own turnIdentity) (bool, error) {
	const most = 16 // the number of older checkpoints to examine: a deferred commit is older than its neighbours
	older := 0
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: turn.Workspace}) {
		if err != nil {
			return false, err
		}
		if c.Time.After(turn.Start) {
			if c.Kind == segno.CheckpointTurn && c.Thread != own.thread && !own.sameAs(identityOf(&c)) {
				return true, nil
			}
		} else if older++; older == most {
			break
		}
	}
	return false, nil
}
