package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/timeline"
)

// turnAnswered handles the agent's answer to a prompt, or its end: the turn ends, or is
// sent again if the failure allows that.
func (s *session) turnAnswered(t *turn, a acp.Message, ended bool) {
	if s.turn != t {
		return
	}
	if ended {
		s.process = nil
	}
	meaning := failure.Classify(s.outcome(t, a, ended))
	if meaning.Session != failure.Kept {
		s.broken = true
	}
	if meaning.Session == failure.Lost && meaning.Turn == failure.NotStarted && s.fresh {
		s.unusable[s.up] = true // the agent accepted it a moment ago, and does not have it
	}
	if meaning.Turn != failure.Fine {
		s.logf("%s: %s", meaning.Name, meaning.Message)
	}
	if t.cancelled && (ended || a.Err() != nil) {
		s.finishCancelled(meaning)
		return
	}
	if (meaning.Turn == failure.NotStarted || meaning.Turn == failure.Seen) && !t.cancelled && !s.proxy.closing.Load() {
		if t.recoveries++; t.recoveries <= maxRecoveries {
			s.recoverTurn(t, meaning)
			return
		}
		meaning.Turn = failure.Failed
	}
	if ended {
		s.finish(acp.Failure(t.m.IDText(), agentEnded()), meaning)
		return
	}
	s.proxy.agent.worked()
	edits := s.toClientEdits(a)
	if t.sentAs != t.m.IDText() {
		edits = append(edits, acp.Edit{At: a.ID, With: []byte(t.m.IDText())})
	}
	t.turnLog.answer = a
	s.finish(a.Splice(edits...), meaning)
}

// outcome describes the turn to package failure.
func (s *session) outcome(t *turn, a acp.Message, ended bool) failure.Outcome {
	id := s.proxy.agent.identity()
	o := failure.Outcome{Agent: id.Name, Version: id.Version, Method: "session/prompt", Exited: ended, OutputTokens: -1,
		Text: string(t.tail), Tools: len(t.calls), Updates: t.updates, SystemError: t.systemError, Fresh: s.fresh}
	if ended {
		return o
	}
	o.Err = a.Err()
	o.Stop = a.Text(a.Find(a.Result, "stopReason"))
	failed := a.Find(a.Result, "_meta", "jetbrains", "air", "sessionFailure")
	o.Category, o.Title = a.Text(a.Find(failed, "category")), a.Text(a.Find(failed, "title"))
	_ = a.Decode(a.Find(a.Result, "usage", "outputTokens"), &o.OutputTokens) // it stays -1 if it is not a number
	return o
}

// finishCancelled finishes the turn as the client wished.
func (s *session) finishCancelled(meaning failure.Meaning) {
	s.turn.cancelled = true
	s.finish(acp.Result(s.turn.m.IDText(), acp.Encode(stopReason("cancelled"))), meaning)
}

// finish makes the turn's end durable, then sends the client the answer line, then runs the
// next prompt that waits.
func (s *session) finish(line []byte, meaning failure.Meaning) {
	t := s.turn
	s.lease = t.renewal.stop(s.lease)
	if t.cancelTimer != nil {
		t.cancelTimer.Stop()
	}
	t.stopDoubt()
	if t.begun && !s.unrecorded {
		if err := s.recordEnd(context.WithoutCancel(s.proxy.ctx), t, meaning); err != nil {
			s.report("the turn's end is not recorded yet; the next command or turn will record it: %v", err)
		}
	}
	s.endTurn()
	if s.turn, s.late = nil, nil; len(t.unwritten) > 0 {
		s.late = t
	}
	if meaning.Session == failure.Kept {
		s.fresh = false // the agent knew the session
	}
	if meaning.Turn != failure.Fine && t.updates == 0 {
		s.preface = append(t.sentPreface, s.preface...) // the model may not have seen it
	}
	s.releaseLease()
	s.failOpenCalls()
	s.proxy.toClient(line)
	if t.onEnd != nil {
		t.onEnd()
	}
	if len(s.prompts) == 0 {
		if err := s.proxy.store.CompressSome(s.proxy.ctx); err != nil {
			s.proxy.logf("compress the store: %v", err)
		}
	}
	for s.turn == nil && len(s.prompts) > 0 {
		next := s.prompts[0]
		s.prompts = s.prompts[1:]
		s.fromClient(next)
	}
}

// recordEnd makes the end of a turn durable. A turn that did not end well is recorded as
// interrupted, with the reason.
func (s *session) recordEnd(ctx context.Context, t *turn, meaning failure.Meaning) error {
	last, unrecorded := t.text.String(), ""
	if t.partial > 0 {
		t.recordText()
	} else {
		unrecorded = last
	}
	if t.turnLog.answer.Line != nil || t.cancelled {
		t.turnLog.recordEnd(t.cancelled)
	}
	if meaning.Turn != failure.Fine && meaning.Message != "" {
		s.addEntry(note("the turn failed: " + meaning.Name + ": " + meaning.Message))
	}
	if err := s.flushEntries(ctx, t); err != nil {
		return err
	}
	tl, err := s.timeline(ctx)
	if err != nil {
		return err
	}
	c, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: t.key, Agent: s.record.Agent, Source: s.source(),
		Interrupted: t.cancelled || meaning.Turn != failure.Fine, Message: strings.ToValidUTF8(unrecorded, "\uFFFD"),
		Settle: s.awaitTranscript(tl, last, meaning), Warn: func(text string) { s.proxy.logf("%s", text) }})
	if c != nil {
		s.known = c.ID
		if err := s.readStory(ctx, c.ID); err != nil {
			s.story = nil // it is read again when it is needed
		}
	}
	return err
}

// flushWait is how long the client waits for its answer because the disk is full.
const flushWait = 2 * time.Second

// flushEntries writes the entries that the spool did not take yet: a turn must not end
// without them.
func (s *session) flushEntries(ctx context.Context, t *turn) error {
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.writeEntries(t)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// transcriptSettler is implemented by transcripts that can wait until the agent has written
// its last message.
type transcriptSettler interface {
	AwaitMessage(ctx context.Context, src segno.Source, last string, since int64) error
}

// awaitTranscript returns a function that waits for the agent's last message to reach its
// transcript; nil if there is nothing to wait for.
func (s *session) awaitTranscript(tl *timeline.Timeline, last string, meaning failure.Meaning) func(context.Context, segno.Source, int64) {
	transcript, ok := tl.Transcripts[s.record.Agent].(transcriptSettler)
	if !ok || meaning.Turn != failure.Fine || strings.TrimSpace(last) == "" {
		return nil
	}
	return func(ctx context.Context, src segno.Source, since int64) {
		ctx, cancel := context.WithTimeout(ctx, settleWait)
		defer cancel()
		if err := transcript.AwaitMessage(ctx, src, last, since); err != nil {
			s.proxy.logf("the last message is not in the transcript yet: %v", err)
		}
	}
}
