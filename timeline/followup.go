package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// joinOpenTurn adds a prompt to the turn that is open for it and returns that turn's key, or
// "" if there is none. Such a prompt is a message that the user typed while the turn runs, or a notice
// of the turn's own background work. The files are not looked at, because the turn already began.
//
// Claude Code gives every prompt of one turn the same id, and a prompt that begins a
// turn a new one. The id therefore decides. An agent that sends no id continues its
// open turn as long as the same process runs and its transcript does not record an
// interruption.
func (tx *txn) joinOpenTurn(ctx context.Context, p Prompt) (segno.TurnKey, error) {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range turns {
		if t.Source.Session != p.Source.Session || t.commitsSteps() || t.InBackground() || !tx.isFollowUp(ctx, t, p) {
			continue
		}
		if err := tx.noteTask(ctx, turns, t, p); err != nil {
			return "", err
		}
		return t.Key, tx.addPrompt(ctx, t, p)
	}
	if p.Task == "" {
		return "", nil
	}
	for _, t := range turns {
		// A turn that was interrupted has its tasks in the background from here on.
		if t.Workspace == tx.Workspace.ID() && t.Source.Session == p.Source.Session && !t.commitsSteps() && !t.InBackground() && tx.wasInterrupted(ctx, t) {
			t, open, err := tx.reread(ctx, t.Key)
			if err == nil && open {
				err = tx.closeInterrupted(ctx, t)
			}
			if err != nil {
				return "", err
			}
		}
	}
	return tx.resumeTurn(ctx, p)
}

// noteTask notes on the turn that started a background task that the task ended, if the
// report of it comes within another turn.
func (tx *txn) noteTask(ctx context.Context, turns []OpenTurn, running OpenTurn, p Prompt) error {
	for _, t := range turns {
		if p.Task == "" || t.Key == running.Key || t.Source.Session != p.Source.Session {
			continue
		}
		if slices.ContainsFunc(t.Tasks, func(task Task) bool { return task.ID == p.Task }) {
			return tx.AppendEntry(ctx, t.Key, segno.Entry{Kind: segno.EntryNote, Session: p.Source.Session, Time: tx.Now(), ID: p.Task, Name: NoteTask, Body: quote(p.Text)})
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
		return t.HasKey(p.Key)
	case t.Owner != "" || p.PID == 0 || t.PID != p.PID || t.PIDStart != p.PIDStart:
		return false
	}
	return !tx.isOver(ctx, t)
}

// addPrompt notes a further prompt of an open turn. The same prompt reported twice,
// because two sets of settings run the hook, is noted once: between two messages of
// the user the agent does something.
func (tx *txn) addPrompt(ctx context.Context, t OpenTurn, p Prompt) error {
	noted, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	e := segno.Entry{Kind: segno.EntryMessage, Session: p.Source.Session, Time: tx.Now(), Name: "user", Body: quote(p.Text)}
	if p.Task != "" {
		e.Kind, e.Name, e.ID = segno.EntryNote, NoteTask, p.Task
	}
	same := func(x segno.Entry) bool { return x.Kind == e.Kind && x.Name == e.Name && slices.Equal(x.Body, e.Body) }
	if len(noted) == 0 && p.Task == "" && p.Text == t.Prompt || len(noted) > 0 && same(noted[len(noted)-1]) {
		return nil
	}
	return tx.AppendEntry(ctx, t.Key, e)
}
