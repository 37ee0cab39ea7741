package proxy

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/internal/preamble"
	"github.com/dalsegno/segno/timeline"
)

// recoverTurn continues a turn after a failure, in a session whose conversation ends at the
// thread's head. If the agent never saw the prompt, it is sent again unchanged. Else the
// agent is asked to continue, with a list of what it has done.
func (s *session) recoverTurn(t *turn, meaning failure.Meaning) {
	ctx, end := s.wait()
	defer end()
	t.recordText()
	s.failOpenCalls()
	inTranscript, known := s.promptInTranscript(ctx, t)
	t.seen = t.seen || meaning.Turn == failure.Seen || len(t.calls) > 0 || known && inTranscript
	unseen := meaning.Turn == failure.NotStarted && !t.seen
	s.preface, s.fidelity = nil, segno.FidelityNative
	if !unseen {
		s.unfinished = s.describe(ctx, t)
	}
	defer func() { s.unfinished = nil }()
	proc, err := s.attach(ctx, reasonRecovery)
	switch {
	case err != nil && (t.cancelled || isCancelled(err) && s.proxy.ctx.Err() == nil):
		s.finishCancelled(meaning)
	case err != nil:
		meaning.Turn = failure.Failed
		s.finish(acp.Failure(t.m.IDText(), clientError(err)), meaning)
	default:
		s.proxy.logErr(s.recordProcess(ctx, t, proc))
		t.stopDoubt()
		t.resetOutput()
		s.resend(proc, t, known && inTranscript || s.knowsPrompt || meaning.Session == failure.Kept)
	}
}

// resend sends the turn to the agent again, under an id of the proxy: the client's was used.
// hasPrompt reports that the session has the prompt. s.unfinished is nil if the model never
// saw the prompt.
func (s *session) resend(proc *process, t *turn, hasPrompt bool) {
	id := s.proxy.agent.newID()
	isNative, isSegno := s.fidelity == segno.FidelityNative, s.proxy.agent.identity().isSegno()
	if isNative && s.unfinished != nil && hasPrompt && !isSegno {
		text := preamble.ContinuePrompt(*s.unfinished)
		s.addEntry(note(text))
		s.send(proc, id, acp.Request(id, "session/prompt", acp.Encode(map[string]any{"sessionId": s.up,
			"prompt": []any{map[string]any{"type": "text", "text": text}}})))
		return
	}
	if isNative && (!hasPrompt || isSegno) {
		s.preface = append(slices.Clone(t.sentPreface), s.preface...) // the session has it no more than the prompt
	}
	var meta map[string]any
	if isSegno { // segno's agent finds out whether it has the prompt, and continues the turn then
		meta = map[string]any{"told": true, "again": true, "heard": t.answered}
	} else if s.unfinished != nil && s.fidelity != segno.FidelityPreamble {
		text := preamble.FromCommits(nil).Text(preamble.Options{Open: s.unfinished})
		s.addEntry(note(text))
		if text != "" {
			s.preface = append(s.preface, text)
		}
	}
	s.send(proc, id, t.m.Splice(append(s.promptEdits(t.m, meta), acp.Edit{At: t.m.ID, With: []byte(id)})...))
}

// promptInTranscript reports whether the agent's transcript has the prompt, and whether that
// is known.
func (s *session) promptInTranscript(ctx context.Context, t *turn) (has, known bool) {
	if !t.begun {
		return false, false
	}
	tl, err := s.timeline(ctx)
	if err == nil {
		has, known, err = tl.PromptState(ctx, t.key)
	}
	if err != nil {
		s.proxy.logf("look for the prompt in the transcript: %v", err)
		return true, true // the safe assumption: the prompt is not sent again
	}
	return has, known
}

// describe is what is known of the unfinished turn.
func (s *session) describe(ctx context.Context, t *turn) *preamble.OpenTurn {
	open := &preamble.OpenTurn{Prompt: t.prompt}
	entries, _, err := s.proxy.Place.Spool().Entries(ctx, t.key)
	if err != nil {
		s.proxy.logf("read the entries of the turn: %v", err)
	}
	open.Entries = entries
	tl, err := s.timeline(ctx)
	if err == nil {
		open.Changed, err = tl.TurnChanges(ctx, t.key)
	}
	if err != nil {
		s.proxy.logf("list the changes of the turn: %v", err)
	}
	return open
}

// recordProcess records the session and the process in which the open turn continues.
func (s *session) recordProcess(ctx context.Context, t *turn, proc *process) error {
	if !t.begun || s.unrecorded {
		return nil
	}
	tl, err := s.timeline(ctx)
	if err != nil {
		return err
	}
	return tl.UpdateTurn(ctx, t.key, func(open *timeline.OpenTurn) {
		open.Source = s.source()
		open.Group, open.GroupStart = proc.group()
	})
}
