package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// joinOpenTurn adds a prompt to the open turn of its session and returns that turn's key, or "" if
// there is none. Such a prompt is a message that the user typed while the turn runs, or a notice from
// the turn's own background work. joinOpenTurn does not scan the files, because the turn has already
// begun.
//
// Claude Code gives all prompts of one turn the same id, and a new one to a prompt that begins a turn.
// The id therefore decides. An agent that sends no id continues its open turn as long as the same
// process runs and its transcript does not record an interruption.
func (tx *txn) joinOpenTurn(ctx context.Context, p Prompt) (segno.TurnKey, error) {
	runs := func(t OpenTurn) bool {
		return t.Source.Session == p.Source.Session && !t.commitsSteps() && !t.InBackground()
	}
	for _, t := range tx.turns {
		if !runs(t) || !tx.isFollowUp(ctx, t, p) {
			continue
		}
		if err := tx.noteTask(ctx, t, p); err != nil {
			return "", err
		}
		return t.Key, tx.addPrompt(ctx, t, p)
	}
	if p.Task == "" {
		return "", nil
	}
	for _, t := range tx.turns {
		// The tasks of an interrupted turn now continue in the background.
		if t.Workspace != tx.Workspace.ID() || !runs(t) || !tx.wasInterrupted(ctx, t) {
			continue
		}
		if t, open := tx.openTurn(t.Key); open {
			if err := tx.closeInterrupted(ctx, t); err != nil {
				return "", err
			}
		}
	}
	return tx.resumeTurn(ctx, p)
}

// noteTask records, in the turn that started a background task, that the task ended, if the report of
// that end arrives during another turn.
func (tx *txn) noteTask(ctx context.Context, running OpenTurn, p Prompt) error {
	for _, t := range tx.turns {
		if t.Key != running.Key && t.Source.Session == p.Source.Session && p.Task != "" && t.hasTask(p.Task) {
			return tx.AppendEntry(ctx, t.Key, tx.taskEnd(p))
		}
	}
	return nil
}

// isFollowUp reports whether a prompt is part of an open turn of its session.
func (tx *txn) isFollowUp(ctx context.Context, t OpenTurn, p Prompt) bool {
	switch {
	case tx.isGone(t):
		return false
	case p.Key != "":
		return t.HasKey(p.Key) || t.Queued && tx.eventKeyOf(ctx, t) == p.Key
	case t.Owner != "" || p.PID == 0 || t.PID != p.PID || t.PIDStart != p.PIDStart:
		return false
	}
	return !tx.isOver(ctx, t)
}

// eventKeyOf returns the key that the events of a queued turn have, or "" if it is not known.
func (tx *txn) eventKeyOf(ctx context.Context, t OpenTurn) segno.TurnKey {
	o, ok := tx.observer(t.Agent)
	if t.EventKey != "" || !ok {
		return t.EventKey
	}
	key, _ := o.QueuedKey(ctx, t.Source) // without it, the prompt begins a turn
	return key
}

// addPrompt records another prompt of an open turn. If two sets of settings run the hook, the same
// prompt is reported twice. addPrompt records it once: between two real messages of the user the agent
// does something.
func (tx *txn) addPrompt(ctx context.Context, t OpenTurn, p Prompt) error {
	noted, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	e := tx.taskEnd(p)
	if p.Task == "" {
		e.Kind, e.Name = segno.EntryMessage, "user"
	}
	same := func(x segno.Entry) bool { return x.Kind == e.Kind && x.Name == e.Name && slices.Equal(x.Body, e.Body) }
	if len(noted) == 0 && p.Task == "" && p.Text == t.Prompt || len(noted) > 0 && same(noted[len(noted)-1]) {
		return nil
	}
	return tx.AppendEntry(ctx, t.Key, e)
}
