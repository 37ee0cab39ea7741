package proxy

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/internal/preamble"
)

// recover takes a turn up again after a failure, on a session that stands where the
// thread does: with the prompt as it was if the agent never saw it, else with a
// request to go on that names what was done.
func (s *session) recover(t *turn, meaning failure.Meaning) {
	ctx, done := s.waiting()
	defer done()
	t.noteText()
	s.closeCalls()
	reached, told := s.reached(ctx, t)
	t.seen = t.seen || meaning.Turn == failure.Seen || len(t.calls) > 0 || told && reached
	again := meaning.Turn == failure.NotStarted && !t.seen
	s.tell, s.unfinished, s.gained = nil, nil, segno.FidelityNative
	if !again {
		open := s.openTurn(ctx, t)
		s.unfinished = &open
	}
	proc, err := s.attach(ctx, recovery)
	switch {
	case err != nil && (t.cancelled || segno.KindOf(err) == segno.KindCancelled && s.proxy.ctx.Err() == nil):
		t.cancelled = true
		s.finish(acp.Result(t.m.IDText(), acp.Encode(map[string]any{"stopReason": "cancelled"})), meaning)
	case err != nil:
		meaning.Turn = failure.Failed
		s.finish(acp.Failure(t.m.IDText(), refusal(err)), meaning)
	default:
		if err := s.goesOn(ctx, t, proc); err != nil {
			s.proxy.logf("%v", err)
		}
		t.begunAnew()
		s.resend(proc, t, again, told && reached || s.knowsPrompt || meaning.Session == failure.Kept)
	}
	s.unfinished = nil
}

// resend writes the turn to the agent once more, under an id of ours: the client's
// was used.
func (s *session) resend(proc *process, t *turn, again, known bool) {
	id := s.proxy.agent.ownID()
	if s.proxy.agent.identity().ours() {
		s.resendOurs(proc, t, id)
		return
	}
	if s.gained == segno.FidelityNative && !known {
		s.tell = append(slices.Clone(t.lead), s.tell...) // what was said before the prompt is as unknown as that
	}
	if !again && s.gained == segno.FidelityNative && known {
		// The session has the prompt; it is asked to go on.
		text := preamble.ContinuePrompt(*s.unfinished)
		s.note(segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: clipText(text)})
		s.send(proc, id, acp.Request(id, "session/prompt", acp.Encode(map[string]any{"sessionId": s.up,
			"prompt": []any{map[string]any{"type": "text", "text": text}}})))
		return
	}
	if !again && s.gained != segno.FidelityPreamble {
		text := preamble.FromCommits(nil).Text(preamble.Options{Open: s.unfinished})
		s.note(segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: clipText(text)})
		if text != "" {
			s.tell = append(s.tell, text)
		}
	}
	s.send(proc, id, t.m.Splice(append(s.promptEdits(t.m), acp.Edit{At: t.m.ID, With: []byte(id)})...))
}

// resendOurs writes the turn to our own agent once more, as it was. That finds out whether
// it has the prompt, and goes on with the turn then.
func (s *session) resendOurs(proc *process, t *turn, id string) {
	if s.gained == segno.FidelityNative {
		s.tell = append(slices.Clone(t.lead), s.tell...)
	}
	s.again = true
	edits := s.promptEdits(t.m)
	s.again = false
	s.send(proc, id, t.m.Splice(append(edits, acp.Edit{At: t.m.ID, With: []byte(id)})...))
}

// reached reports whether the agent's transcript has the prompt, and whether there
// is one to tell.
func (s *session) reached(ctx context.Context, t *turn) (reached, told bool) {
	if !t.begun {
		return false, false
	}
	site, err := s.site(ctx)
	if err != nil {
		return true, true
	}
	reached, told, err = site.PromptState(ctx, t.key)
	if err != nil {
		s.proxy.logf("look for the prompt in the transcript: %v", err)
		return true, true // as far as anybody knows
	}
	return reached, told
}

// begunAnew forgets what is only true of the answer that did not come. Ids of calls
// may come again, for other calls.
func (t *turn) begunAnew() {
	for id := range t.calls {
		t.used[id] = true
	}
	t.answered = t.answered || len(t.said) > 0 || len(t.calls) > 0
	t.heard = heard{calls: map[string]*call{}}
	t.endDoubt()
}

// openTurn is what is known of the turn so far.
func (s *session) openTurn(ctx context.Context, t *turn) preamble.OpenTurn {
	open := preamble.OpenTurn{Prompt: t.text}
	entries, _, err := s.proxy.Place.Spool().Entries(ctx, t.key)
	if err != nil {
		s.proxy.logf("read what the turn did: %v", err)
	}
	open.Entries, open.Changed = entries, s.changed(ctx, t)
	return open
}

// changed lists the paths that are not what they were when the turn began.
func (s *session) changed(ctx context.Context, t *turn) []string {
	site, err := s.site(ctx)
	var paths []string
	if err == nil {
		paths, err = site.TurnChanges(ctx, t.key)
	}
	if err != nil {
		s.proxy.logf("look at what changed in the turn: %v", err)
	}
	return paths
}
