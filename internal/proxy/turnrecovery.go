package proxy

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/timeline"
)

// recover continues a turn after a failure, in a session whose conversation ends at the
// thread's head. If the agent never saw the prompt, recover sends it again unchanged.
// Otherwise it asks the agent to continue, with a list of its actions so far. If this list is not known, the turn fails,
// because the agent would repeat its actions.
func (t *turn) recover(meaning failure.Meaning) {
	ctx, end := t.wait()
	defer end()
	t.recordThought()
	t.recordText()
	t.failOpenCalls()
	inTranscript, known := t.promptInTranscript(ctx)
	t.seen = t.seen || meaning.Turn == failure.Seen || len(t.calls) > 0 || known && inTranscript
	unseen := meaning.Turn == failure.NotStarted && !t.seen
	t.preface, t.fidelity = nil, segno.FidelityNative
	defer func() { t.unfinished = nil }()
	proc, err := t.attachAfter(ctx, unseen)
	switch {
	case err != nil && (t.cancelled || isCancelled(err) && t.proxy.ctx.Err() == nil):
		t.finishCancelled(meaning)
	case err != nil:
		meaning.Turn = failure.Failed
		t.finish(acp.Failure(t.m.IDText(), clientError(err)), meaning)
	default:
		t.proxy.logErr(t.recordProcess(ctx, proc))
		t.stopDoubt()
		t.resetOutput()
		t.resend(proc, known && inTranscript || t.knowsPrompt || meaning.Session == failure.Kept)
	}
}

// attachAfter gets a process that has the thread's session, for the unfinished turn. The model never saw the prompt if unseen.
func (t *turn) attachAfter(ctx context.Context, unseen bool) (_ *process, err error) {
	if !unseen {
		if t.unfinished, err = t.describe(ctx); err != nil {
			return nil, err
		}
	}
	return t.attach(ctx, reasonRecovery)
}

// resend sends the turn to the agent again, under an id of the proxy, because the client's
// id was already used. hasPrompt reports that the session has the prompt. s.unfinished is
// nil if the model never saw the prompt.
func (t *turn) resend(proc *process, hasPrompt bool) {
	id := t.proxy.agent.newID()
	isNative, isSegno := t.fidelity == segno.FidelityNative, t.proxy.agent.identity().isSegno()
	if isNative && t.unfinished != nil && hasPrompt && !isSegno {
		text := preamble.ContinuePrompt(*t.unfinished)
		t.addEntry(note(text))
		t.send(proc, id, acp.Request(id, "session/prompt", acp.Encode(map[string]any{"sessionId": t.up,
			"prompt": []any{map[string]any{"type": "text", "text": text}}})))
		return
	}
	if isNative && (!hasPrompt || isSegno) {
		t.preface = append(slices.Clone(t.sentPreface), t.preface...) // the session lacks it, as it lacks the prompt
	}
	var meta map[string]any
	if isSegno { // segno's agent checks whether it has the prompt, and then continues the turn
		meta = map[string]any{"note": true, "repeated": true, "answered": t.answered}
	} else if t.unfinished != nil && t.fidelity != segno.FidelityPreamble {
		text := new(preamble.Builder).Text(preamble.Options{Open: t.unfinished})
		t.addEntry(note(text))
		if text != "" {
			t.preface = append(t.preface, text)
		}
	}
	t.send(proc, id, t.m.Splice(append(t.promptEdits(t.m, meta), acp.Edit{At: t.m.ID, With: []byte(id)})...))
}

// promptInTranscript reports whether the agent's transcript has the prompt, and whether that
// is known.
func (t *turn) promptInTranscript(ctx context.Context) (has, known bool) {
	if !t.begun {
		return false, false
	}
	tl, err := t.timeline(ctx)
	if err == nil {
		has, known, err = tl.PromptState(ctx, t.key)
	}
	if err != nil {
		t.proxy.logf("look for the prompt in the transcript: %v", err)
		return true, true // the safe assumption: the prompt is not sent again
	}
	return has, known
}

// describe returns the prompt, the entries and the changed paths of the unfinished turn.
func (t *turn) describe(ctx context.Context) (*preamble.OpenTurn, error) {
	open := &preamble.OpenTurn{Prompt: t.prompt, Dir: t.record.Dir}
	var err error
	if open.Entries, err = t.entries(ctx); err != nil {
		return nil, err
	}
	tl, err := t.timeline(ctx)
	if err == nil {
		open.Changed, err = tl.TurnChanges(ctx, t.key)
	}
	if err != nil {
		t.proxy.logf("list the changes of the turn: %v", err)
	}
	return open, nil
}

// recordProcess records the session and the process in which the open turn continues.
func (t *turn) recordProcess(ctx context.Context, proc *process) error {
	if !t.begun || t.unrecorded {
		return nil
	}
	tl, err := t.timeline(ctx)
	if err != nil {
		return err
	}
	return tl.UpdateTurn(ctx, t.key, func(open *timeline.OpenTurn) {
		open.Source = t.source()
		open.Group, open.GroupStart = proc.cmd.Process.Pid, proc.start
	})
}
