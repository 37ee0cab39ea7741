package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/timeline"
)

// ending is what the proxy notes of a turn's end.
type ending struct {
	Messages []string        `json:"messages,omitempty"` // the agent's ids of its messages, oldest first
	Behind   bool            `json:"behind,omitempty"`   // something of the turn came behind the last of them
	Stop     string          `json:"stop,omitempty"`
	Usage    json.RawMessage `json:"usage,omitempty"`
	Context  json.RawMessage `json:"context,omitempty"` // the last usage_update
	Error    json.RawMessage `json:"error,omitempty"`
}

// endingOf reads what was noted of a turn's end.
func endingOf(entries []segno.Entry) (e ending) {
	for _, x := range entries {
		if x.Kind == segno.EntryNote && x.Name == "end" {
			_ = json.Unmarshal(x.Body, &e) // one that was clipped names no message
		}
	}
	return e
}

// endTurn makes the end of a turn durable. A turn that did not end as it should is
// interrupted; what is known of why is noted.
func (s *session) endTurn(t *turn, meaning failure.Meaning) {
	ctx := context.WithoutCancel(s.proxy.ctx)
	s.lease = t.lease(s.lease)
	if !t.begun || t.unrecorded {
		return
	}
	last, rest := t.saying.String(), ""
	if t.partly > 0 {
		t.noteText()
	} else {
		rest = last
	}
	if t.answer.Line != nil || t.cancelled {
		t.noteEnd()
	}
	if meaning.Turn != failure.Fine && meaning.Message != "" {
		s.note(segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: acp.Encode("the turn failed: " + meaning.Name + ": " + meaning.Message)})
	}
	err := s.flushNotes(ctx, t)
	var site *timeline.Timeline
	if err == nil {
		site, err = s.site(ctx)
	}
	if err == nil {
		var c *segno.Checkpoint
		c, err = site.EndTurn(ctx, timeline.TurnEnd{Key: t.key, Agent: s.page.Agent, Source: s.source(), Interrupted: t.cancelled || meaning.Turn != failure.Fine,
			Message: strings.ToValidUTF8(rest, "\uFFFD"), Settle: s.settled(site, last, meaning),
			Warn: func(text string) { s.proxy.logf("%s", text) }})
		if c != nil {
			s.has = c.ID
			s.grow(ctx, c.ID)
		}
	}
	if err != nil {
		s.report("the turn's end is not recorded yet, the next command or turn records it: %v", err)
	}
}

// flushWait is how long a client waits for its answer because the disk is full.
const flushWait = 2 * time.Second

// flushNotes writes what the spool did not take yet. A turn that ends without it would
// lack what was done.
func (s *session) flushNotes(ctx context.Context, t *turn) error {
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.writeNotes(t)
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

// noteEnd notes how the turn ended, and what is worth keeping of what changes while
// it runs.
func (t *turn) noteEnd() {
	if t.plan != nil {
		t.record(segno.Entry{Kind: segno.EntryNote, Name: "plan", Body: segno.Clip(t.plan)})
	}
	a := t.answer
	end := ending{Messages: t.messages[max(0, len(t.messages)-maxMessages):], Behind: t.callBehind || t.recoveries > 0,
		Stop:  a.Text(a.Find(a.Result, "stopReason")),
		Usage: short(a.Find(a.Result, "usage").Of(a.Line)), Context: short(t.usage), Error: short(a.Error.Of(a.Line))}
	if end.Stop == "" && t.cancelled {
		end.Stop = "cancelled" // the agent died, or failed, before it answered the cancel
	}
	t.record(segno.Entry{Kind: segno.EntryNote, Name: "end", Body: segno.Clip(acp.Encode(end))})
}

// maxMessages is how many of a turn's messages can be named to fork at its end.
const maxMessages = 200

// short is JSON that fits in a note beside other things; what does not is left out.
func short(raw json.RawMessage) json.RawMessage {
	const most = 2 << 10
	if len(raw) > most {
		return nil
	}
	return raw
}

// settler is the ability of transcripts to wait for an agent's last words.
type settler interface {
	AwaitMessage(ctx context.Context, src segno.Source, last string, since int64) error
}

// settled waits for the agent's last words to reach its transcript, where it keeps
// one we can read.
func (s *session) settled(site *timeline.Timeline, last string, meaning failure.Meaning) func(context.Context, segno.Source, int64) {
	transcript, ok := site.Transcripts[s.page.Agent].(settler)
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

// messageOf returns the id the agent gave a turn's last message; "" if it gave none,
// or called a tool behind it: a fork there would not have that. Our own agent's forks have
// all of a turn.
func (s *session) messageOf(ctx context.Context, turn *segno.Checkpoint) (string, error) {
	line, err := s.proxy.store.Load(ctx, turn.ID, segno.Window{Last: 1, Entries: true})
	if err != nil || len(line.Commits) == 0 {
		return "", err
	}
	end := endingOf(line.Commits[0].Entries)
	if len(end.Messages) == 0 || end.Behind && !s.proxy.agent.identity().ours() {
		return "", nil
	}
	return end.Messages[len(end.Messages)-1], nil
}

// turnOfMessage returns the turn of the thread's line in which the agent sent a
// message.
func (s *session) turnOfMessage(ctx context.Context, message string) (*segno.Checkpoint, error) {
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return nil, err
	}
	line, err := s.proxy.store.Load(ctx, head.Tip, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if e := endingOf(n.Entries); n.Checkpoint != nil && slices.Contains(e.Messages, message) {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "fork", message, nil).WithHint("give a checkpoint of 'segno log', or the id of a message of the agent's")
}
