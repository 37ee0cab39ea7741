package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// unseenTurn is a turn whose end was reported but not its beginning.
type unseenTurn struct {
	prompt string // the newest message of the user
	// goesOn is set if a recorded turn has the turn's key: the user prompted the agent again after
	// the end of that turn, and the agent continued under the same key.
	goesOn bool
}

// promptObserver is the ability of a [segno.Transcript] to report whether there is a prompt after a
// position.
type promptObserver interface {
	PromptedAfter(ctx context.Context, src segno.Source, p segno.Position) (bool, error)
}

// EndUnseenTurn records a turn of which the caller receives only the end. It does nothing if the
// turn is already recorded, or if it is open under another key, because the end of the open turn is
// reported, too. The turn begins with the newest known state of the workspace, and with its prompt
// in the transcript. prompt is the newest message of the user; EndUnseenTurn uses it only if the
// transcript does not contain the turn's prompt.
func (tl *Timeline) EndUnseenTurn(ctx context.Context, prompt string, e TurnEnd) error {
	if e.Key == "" || e.Source.Session == "" {
		return segno.Errorf(segno.KindInvalid, "end turn", "", "it needs a key and a session")
	}
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	isOpen := func(t OpenTurn) bool { return t.Source.Session == e.Source.Session && !t.InBackground() }
	for _, t := range tx.turns {
		if isOpen(t) && t.HasKey(e.Key) {
			_, err := tx.end(ctx, e, t)
			return err
		}
	}
	if _, err := tx.closeStale(ctx, Prompt{}); err != nil || slices.ContainsFunc(tx.turns, isOpen) {
		return err
	}
	if err := tx.recordUnseen(ctx, prompt, e); err != nil {
		return err
	}
	return tx.pendingErr
}

// recordUnseen records a turn that is not open, unless it is already recorded.
func (tx *txn) recordUnseen(ctx context.Context, prompt string, e TurnEnd) (err error) {
	unseen := &unseenTurn{prompt: prompt}
	if unseen.goesOn, err = tx.isRecorded(ctx, e); err != nil {
		return err
	}
	if unseen.goesOn {
		if prompted, err := tx.promptedSince(ctx, e); !prompted || err != nil {
			return err
		}
		e.Key = segno.TurnKey(segno.NewID())
	}
	turn, err := tx.turnToEnd(ctx, e)
	if err == nil {
		_, err = tx.record(ctx, &turnEnd{TurnEnd: e, turn: turn, unseen: unseen})
	}
	return err
}

func (tx *txn) isRecorded(ctx context.Context, e TurnEnd) (bool, error) {
	done, err := tx.recordedEnd(ctx, OpenTurn{Key: e.Key, Source: e.Source})
	return done != nil, err
}

// promptedSince reports whether the user prompted the agent after the newest turn of the session.
func (tx *txn) promptedSince(ctx context.Context, e TurnEnd) (bool, error) {
	o, ok := tx.Transcripts[e.Agent].(promptObserver)
	if !ok {
		return false, nil
	}
	last, err := tx.newest(ctx, segno.CheckpointQuery{Session: e.Source.Session})
	if err != nil || last == nil {
		return false, err
	}
	return o.PromptedAfter(ctx, e.Source, *last.Session)
}

// captureUnseen captures the transcript up to the end of an unseen turn. The agent may already have
// begun another turn. w.got.Prompt is "" if the transcript has no prompt of the turn.
func (tx *txn) captureUnseen(ctx context.Context, w *turnEnd) (err error) {
	all, ok := tx.Transcripts[w.turn.Agent].(transcript.TurnCapturer)
	if !ok {
		return segno.Errorf(segno.KindInvalid, "end turn", w.turn.Agent, "no transcripts of that agent can be read here")
	}
	if w.got, err = all.CaptureTurns(ctx, w.turn.Source, w.prev, nil, tx.Store.Objects(), w.batch, tx.isKnownLeaf(ctx)); err != nil {
		return err
	}
	got := &w.got
	switch i := slices.IndexFunc(got.Earlier, func(t segno.TranscriptTurn) bool { return t.Key == w.turn.Key }); {
	case i >= 0:
		t := got.Earlier[i]
		got.Position, got.Key, got.Text, got.Prompt = t.Position, t.Key, t.Prompt, t.Position.Leaf
		if got.Earlier = got.Earlier[:i]; i > 0 {
			got.Follows = got.Earlier[i-1].Position.Leaf
		}
	case w.unseen.goesOn:
		got.Prompt, got.Follows, got.Text = got.Position.Leaf, got.Position.Leaf, w.unseen.prompt
	case got.Key != w.turn.Key:
		got.Prompt = "" // the end of the turn that is running now records both
	}
	w.turn.Prompt = got.Text
	return nil
}
