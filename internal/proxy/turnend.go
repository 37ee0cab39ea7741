package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
	"github.com/dalsegno/segno/timeline"
)

// handleAnswer handles the agent's answer to a prompt, or the end of the agent. It ends the
// turn, or sends it again if the failure allows that.
func (t *turn) handleAnswer(a acp.Message, ended bool) {
	if t.turn != t {
		return
	}
	if ended {
		t.process = nil
	}
	meaning := failure.Classify(t.outcome(a, ended))
	if meaning.Session != failure.Kept {
		t.broken = true
	}
	if meaning.Session == failure.Lost && meaning.Turn == failure.NotStarted && t.fresh {
		t.unusable[t.up] = true // the agent just opened this session, and does not have it
	}
	if meaning.Turn != failure.Fine {
		t.logf("%s: %s", meaning.Name, meaning.Message)
	}
	if t.cancelled && (ended || a.Err() != nil) {
		t.finishCancelled(meaning)
		return
	}
	if t.mayRecover(meaning) {
		if t.recoveries++; t.recoveries <= maxRecoveries {
			if ended {
				t.addEntry(segno.Entry{Kind: segno.EntryNote, Name: timeline.NoteAgentEnded})
			}
			t.recover(meaning)
			return
		}
		meaning.Turn = failure.Failed
	}
	if ended {
		t.finish(acp.Failure(t.m.IDText(), agentEnded()), meaning)
		return
	}
	t.proxy.agent.fails.Store(0) // if the process ends, the next one is started without delay
	edits := t.toClientEdits(a)
	if t.sentAs != t.m.IDText() {
		edits = append(edits, acp.Edit{At: a.ID, With: []byte(t.m.IDText())})
	}
	t.stopped = a
	t.finish(a.Splice(edits...), meaning)
}

// mayRecover reports whether a failed turn may be sent again.
func (t *turn) mayRecover(meaning failure.Meaning) bool {
	return (meaning.Turn == failure.NotStarted || meaning.Turn == failure.Seen) && !t.cancelled && !t.proxy.closing.Load()
}

// outcome describes the turn to package failure.
func (t *turn) outcome(a acp.Message, ended bool) failure.Outcome {
	id := t.proxy.agent.identity()
	o := failure.Outcome{Agent: id.Name, Version: id.Version, Method: "session/prompt", Exited: ended, OutputTokens: -1,
		Text: string(t.tail), Tools: len(t.calls), Updates: t.updates, SystemError: t.systemError, Fresh: t.fresh}
	if ended {
		return o
	}
	o.Err = a.Err()
	o.Stop = a.Text(a.Find(a.Result, "stopReason"))
	failed := a.Find(a.Result, "_meta", "jetbrains", "air", "sessionFailure")
	o.Category, o.Title = a.Text(a.Find(failed, "category")), a.Text(a.Find(failed, "title"))
	_ = a.Decode(a.Find(a.Result, "usage", "outputTokens"), &o.OutputTokens) // the field stays -1 if it is not a number
	return o
}

// finishCancelled finishes the turn as the client wished.
func (t *turn) finishCancelled(meaning failure.Meaning) {
	t.cancelled = true
	t.finish(acp.Result(t.m.IDText(), acp.Encode(stopReason("cancelled"))), meaning)
}

// finish ends the turn. It makes the turn's end durable, then sends the client the answer
// line, then runs the next waiting prompt. The order of its steps matters. It first stops
// the renewal, so that the lease's newest epoch is known, and commits the end under that
// lease. Only then may other clients prompt, and the client receives the answer.
func (t *turn) finish(line []byte, meaning failure.Meaning) {
	if t.stopRenewal != nil {
		t.lease = t.stopRenewal()
	}
	if t.cancelTimer != nil {
		t.cancelTimer.Stop()
	}
	t.stopDoubt()
	if t.begun && !t.unrecorded {
		if err := t.recordEnd(context.WithoutCancel(t.proxy.ctx), meaning); err != nil {
			t.report("the turn's end is not recorded yet; the next turn or move will record it: %v", err)
		}
	}
	t.endTurn()
	if t.turn = nil; len(t.unwritten) > 0 {
		t.unsaved = t
		t.writeUnsavedLater()
	}
	if meaning.Session == failure.Kept {
		t.fresh = false // the session is no longer new to the agent
	}
	if meaning.Turn != failure.Fine && t.updates == 0 {
		t.preface = append(t.sentPreface, t.preface...) // the model may not have seen it
	}
	t.releaseLease()
	t.failOpenCalls()
	t.proxy.toClient(line)
	if t.onEnd != nil {
		t.onEnd()
	}
	if len(t.prompts) == 0 {
		if err := t.proxy.store.CompressSome(t.proxy.ctx); err != nil {
			t.proxy.logf("compress the store: %v", err)
		}
	}
	for t.turn == nil && len(t.prompts) > 0 {
		next := t.prompts[0]
		t.prompts = t.prompts[1:]
		t.fromClient(next)
	}
}

// recordEnd makes the end of a turn durable: it completes the entries in the spool, and the
// timeline commits them with the files and the transcript. If that fails, the spool keeps
// the open turn, and the next command or turn commits it. recordEnd records a turn that did
// not end well as interrupted, with the reason.
func (t *turn) recordEnd(ctx context.Context, meaning failure.Meaning) error {
	t.recordThought()
	last := t.text.String()
	t.recordText() // if the end cannot be recorded now, the spool has the message for the next one that can
	if t.stopped.Line != nil || t.cancelled {
		stop := ""
		switch {
		case t.disconnected:
			stop = stopDisconnected
		case t.cancelled:
			stop = "cancelled" // even if the agent ended or failed before it answered the cancel
		}
		t.addEnd(stop)
	}
	if meaning.Turn != failure.Fine && meaning.Message != "" {
		t.addEntry(note("the turn failed: " + meaning.Name + ": " + meaning.Message))
	}
	if err := t.flushEntries(ctx); err != nil {
		return err
	}
	tl, err := t.timeline(ctx)
	if err != nil {
		return err
	}
	c, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: t.key, Agent: t.record.Agent, Source: t.source(),
		Interrupted:     t.cancelled || meaning.Turn != failure.Fine,
		AwaitTranscript: t.awaitTranscript(tl, last, meaning), Warn: func(text string) { t.proxy.logf("%s", text) }})
	if c != nil {
		t.known = c.ID
		if err := t.readStory(ctx, c.ID); err != nil {
			t.story = nil // it will be read again when needed
		}
	}
	return err
}

// flushWait is the longest delay of the client's answer because the disk is full.
const flushWait = 2 * time.Second

// flushEntries writes the entries that the spool did not accept yet: a turn must not end
// without them.
func (t *turn) flushEntries(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := t.writeEntries()
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

// awaitTranscript returns a function that waits until the agent's last message is in its
// transcript, or nil if there is nothing to wait for.
func (t *turn) awaitTranscript(tl *timeline.Timeline, last string, meaning failure.Meaning) func(context.Context, segno.Source, int64) {
	transcript, ok := tl.Transcripts[t.record.Agent].(transcriptSettler)
	if !ok || meaning.Turn != failure.Fine || strings.TrimSpace(last) == "" {
		return nil
	}
	return func(ctx context.Context, src segno.Source, since int64) {
		if err := transcript.AwaitMessage(ctx, src, last, since); err != nil {
			t.proxy.logf("the last message is not in the transcript yet: %v", err)
		}
	}
}
