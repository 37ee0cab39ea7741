package segno

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// join adds a prompt to the turn that is open for it and returns that turn's key, or
// "" if there is none. Such a prompt is a message that the user typed while the turn runs, or a notice
// of the turn's own background work. The files are not looked at, because the turn already began.
//
// Claude Code gives every prompt of one turn the same id, and a prompt that begins a
// turn a new one. The id therefore decides. An agent that sends no id continues its
// open turn as long as the same process runs and its transcript does not record an
// interruption.
func (r *Recorder) join(ctx context.Context, p Prompt) (TurnKey, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range turns {
		if t.Source.Session != p.Source.Session || t.steps() || !r.continues(ctx, t, p) {
			continue
		}
		return t.Key, r.addPrompt(ctx, t, p)
	}
	return "", nil
}

// continues reports whether a prompt is part of an open turn of its session.
func (r *Recorder) continues(ctx context.Context, t OpenTurn, p Prompt) bool {
	switch {
	case r.gone(t):
		return false
	case p.Key != "":
		return t.Key == p.Key
	case t.Owner != "" || p.PID == 0 || t.PID != p.PID || t.PIDStart != p.PIDStart:
		return false
	}
	return !r.over(ctx, t)
}

// addPrompt notes a further prompt of an open turn. The same prompt reported twice,
// because two sets of settings run the hook, is noted once: between two messages of
// the user the agent does something.
func (r *Recorder) addPrompt(ctx context.Context, t OpenTurn, p Prompt) error {
	noted, _, err := r.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	body, err := json.Marshal(p.Text)
	if err != nil {
		return fmt.Errorf("encode prompt: %w", err)
	}
	e := Entry{Kind: EntryMessage, Session: p.Source.Session, Time: r.Now(), Name: "user", Body: Clip(body)}
	if p.Task != "" {
		e.Kind, e.Name = EntryNote, "task"
	}
	same := func(x Entry) bool { return x.Kind == e.Kind && x.Name == e.Name && slices.Equal(x.Body, e.Body) }
	if len(noted) == 0 && p.Task == "" && p.Text == t.Prompt || len(noted) > 0 && same(noted[len(noted)-1]) {
		return nil
	}
	return r.Note(ctx, t.Key, e)
}
