package export

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/transcript"
)

// maxTranscript is the size of the largest transcript that is read whole.
const maxTranscript = 64 << 20

// conversations reads the transcripts of a thread's sessions, one at a time.
type conversations struct {
	t       *Thread
	session segno.SessionID
	failed  bool // the session cannot be read, and a turn already mentions it
	next    int  // the number of selected positions so far
	at      int  // the position that was read, counted from 1
	misses  int  // number of consecutive turns that no position contained
	// parts are the turns after the last one that was found, oldest first.
	parts []part
}

// part has the messages of one turn.
type part struct {
	prompt   string
	messages []transcript.Message
}

// maxMisses is the number of consecutive missing turns after which no further positions are read, because each search
// for a turn reads the whole transcript.
const maxMisses = 4

// complete adds the parts of a turn that only the transcript has: texts between calls, whole
// results, images and the model. If there is no transcript, the turn keeps only the content of its
// entries.
func (c *conversations) complete(ctx context.Context, turn *Turn) error {
	p := turn.Checkpoint.Session
	if p == nil {
		return nil
	}
	if c.session != p.Session {
		*c = conversations{t: c.t, session: p.Session}
		if err := c.read(ctx, turn, len(c.t.sessions[p.Session])); err != nil {
			return err
		}
	}
	c.next++
	if p.Leaf == "" || turn.Checkpoint.Kind != segno.CheckpointTurn || c.use(turn) {
		return nil
	}
	// At the end of the session, the conversation lacks this turn if the agent replaced the oldest messages by a
	// summary. An earlier position still has it. A position far ahead contains many turns, so try it first.
	for _, ahead := range []int{63, 15, 3, 0} {
		n := min(c.next+ahead, len(c.t.sessions[c.session]))
		if c.failed || n == c.at || c.misses >= maxMisses {
			continue
		}
		if err := c.read(ctx, turn, n); err != nil || c.use(turn) {
			return err
		}
	}
	c.misses++
	return nil
}

// use completes a turn with its messages, if there are any.
func (c *conversations) use(turn *Turn) bool {
	prompt := strings.TrimSpace(turn.Prompt)
	i := slices.IndexFunc(c.parts, func(p part) bool { return p.prompt == prompt })
	if i < 0 {
		return false
	}
	turn.useMessages(c.parts[i].messages)
	c.parts, c.misses = c.parts[i+1:], 0
	return true
}

// read reads the session up to its n-th selected position, counted from 1.
func (c *conversations) read(ctx context.Context, turn *Turn, n int) error {
	c.parts, c.at = nil, n
	p := c.t.sessions[c.session][n-1]
	reader, ok := c.t.r.Transcripts[p.Agent].(transcript.ConversationReader)
	if !ok || p.Leaf == "" {
		c.failed = !ok
		return nil
	}
	if p.Offset > maxTranscript {
		c.failed = true
		turn.Missing = append(turn.Missing, fmt.Sprintf("the transcript of session %s was not read, because it is larger than %d MiB", p.Session, maxTranscript>>20))
		return nil
	}
	talk, err := reader.ReadConversation(ctx, p, "", c.t.r.Store.Objects())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.failed = true
		turn.miss("the transcript of session "+string(p.Session), err)
		return nil
	}
	for _, m := range talk.Messages {
		switch {
		case m.Prompt:
			c.parts = append(c.parts, part{strings.TrimSpace(turns.TextOfParts(m.Parts)), []transcript.Message{m}})
		case len(c.parts) > 0:
			last := &c.parts[len(c.parts)-1]
			last.messages = append(last.messages, m)
		}
	}
	return nil
}

// useMessages replaces the items by the messages of the transcript. It keeps what only the entries
// have: durations, exit statuses, notes, calls of subagents, and calls without a result.
func (t *Turn) useMessages(messages []transcript.Message) {
	recorded := t.Items
	t.Items, t.Images = nil, turns.ImagesOf(messages[0].Parts)
	if at := messages[0].Time; !at.IsZero() && at.Before(t.End) {
		t.Start = at
	}
	if at := messages[len(messages)-1].Time; at.After(t.Start) && at.Before(t.End) {
		t.End = at
	}
	for n, m := range messages[1:] {
		t.AddTranscript(&m, n+1)
	}
	for _, it := range recorded {
		switch {
		case it.Call != nil:
			t.addDetails(it)
		case it.Author == turns.Segno || it.Author == turns.Agent && !t.has(it.Text):
			t.insert(it)
		}
	}
}

// insert adds an item at the position that its time determines.
func (t *Turn) insert(it turns.Item) {
	at := len(t.Items)
	for i := range t.Items {
		if !it.Time.IsZero() && t.Items[i].Time.After(it.Time) {
			at = i
			break
		}
	}
	t.Items = slices.Insert(t.Items, at, it)
}

// has reports whether the agent's texts contain text.
func (t *Turn) has(text string) bool {
	return slices.ContainsFunc(t.Items, func(it turns.Item) bool {
		return it.Call == nil && strings.TrimSpace(it.Text) == strings.TrimSpace(text)
	}) || strings.TrimSpace(strings.Join(t.agentTexts(), "\n")) == strings.TrimSpace(text)
}

// agentTexts returns the agent's texts after the last call. The agent reports them as one text.
func (t *Turn) agentTexts() (out []string) {
	for _, it := range t.Items {
		switch {
		case it.Call != nil:
			out = nil
		case it.Author == turns.Agent && it.Text != "":
			out = append(out, it.Text)
		}
	}
	return out
}

// addDetails adds the details in a recorded call to the same call of the transcript. If the transcript lacks the call,
// it adds the whole call.
func (t *Turn) addDetails(recorded turns.Item) {
	have := t.Call(recorded.Call.ID)
	if have == nil {
		t.insert(recorded)
		return
	}
	from := recorded.Call
	have.Outcome, have.Agent, have.Failed = from.Outcome, from.Agent, have.Failed || from.Failed
	if !from.Start.IsZero() {
		have.Start = from.Start
	}
	if !from.End.IsZero() {
		have.End = from.End
	}
}
