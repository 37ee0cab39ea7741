package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/timeline"
)

// call is one tool call of a turn, as far as the agent has told.
type call struct {
	id     string
	name   string // of the tool, or its kind
	intent struct {
		Title     string          `json:"title,omitempty"`
		Kind      string          `json:"kind,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
		Locations json.RawMessage `json:"locations,omitempty"`
	}
	result struct {
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content,omitempty"`
		Output  json.RawMessage `json:"output,omitempty"`
	}
	stale bool // the input changed since the intent was written
	noted int  // how often the intent was written to the spool; the last one counts
	ended bool // the result is
}

// maxIntents is how often the intent of one call is noted before its end: an agent that
// streams a call's input changes it many times.
const maxIntents = 8

// maxText is how much of what an agent says between two tool calls is kept.
const maxText = 256 << 10

// maxSaid is about how much of a turn is kept to tell a failure by.
const maxSaid = 8 << 10

// observe notes what an update says of the turn under way, or of those that are replayed.
func (s *session) observe(m acp.Message) {
	if s.listens && s.history != nil {
		s.history.hear(m)
	}
	if s.rest != nil {
		s.rest.hear(m)
	}
	update := m.Find(m.Params, "update")
	if update.IsZero() {
		return
	}
	kind := m.Text(m.Find(update, "sessionUpdate"))
	switch kind {
	case "current_mode_update":
		if mode := m.Text(m.Find(update, "currentModeId")); mode != "" {
			s.keepSetting("session/set_mode", "", acp.Encode(map[string]any{"sessionId": s.id, "modeId": mode}))
		}
	case "session_info_update":
		if title := m.Text(m.Find(update, "title")); title != "" && title != s.page.Title && s.page.Client != "" && !s.heir {
			s.page.Title = title
			s.remember()
		}
	case "tool_call", "tool_call_update":
		s.calls.see(kind, m.Text(m.Find(update, "toolCallId")), m.Text(m.Find(update, "status")))
	}
	t := s.turn
	if t == nil {
		return
	}
	t.updates++
	t.observe(kind, m, update)
}

// observe notes what an update tells of the turn.
func (t *turn) observe(kind string, m acp.Message, update acp.Span) {
	switch kind {
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan":
		t.signs++
	}
	switch kind {
	case "agent_message_chunk":
		t.hear(m, update)
	case "tool_call", "tool_call_update":
		t.called(m, update)
	case "plan":
		t.plan = append(t.plan[:0], m.Find(update, "entries").Of(m.Line)...)
	case "usage_update":
		t.usage = append(t.usage[:0], update.Of(m.Line)...)
	case "session_info_update":
		if status := m.Text(m.Find(update, "_meta", "codex", "threadStatus", "type")); status != "" {
			t.systemError = status == "systemError"
		}
	}
}

// hear keeps what the agent says. A message that another one follows is noted: of
// what was said only the last is known to be whole when the turn ends.
func (t *turn) hear(m acp.Message, update acp.Span) {
	if id := m.Text(m.Find(update, "messageId")); id != t.message {
		t.noteText()
		if t.message = id; id != "" {
			t.messages, t.callBehind = append(t.messages, id), false
		}
	}
	said := m.Text(m.Find(update, "content", "text"))
	if t.saying.Len()+len(said) <= maxText {
		t.saying.WriteString(said)
	}
	if t.saySoon != nil {
		t.saySoon()
	}
	if t.said = append(t.said, said...); len(t.said) > 2*maxSaid {
		t.said = append(t.said[:0], t.said[len(t.said)-maxSaid:]...) // errors come last
	}
}

// noteText notes the message that the agent was saying: it is whole.
func (t *turn) noteText() {
	if text := t.saying.String(); strings.TrimSpace(text) != "" {
		id := ""
		if t.partly > 0 {
			id = t.messageID()
		}
		t.record(segno.Entry{Kind: segno.EntryMessage, Name: "agent", ID: id, Body: clipText(text)})
	}
	t.saying.Reset()
	t.partly, t.count = 0, t.count+1
}

// notePart notes as much of a message as the agent has said. What is noted later under
// the same id takes its place.
func (t *turn) notePart() {
	if t.saying.Len() > t.partly && strings.TrimSpace(t.saying.String()) != "" {
		t.partly, t.partAt = t.saying.Len(), time.Now()
		t.record(segno.Entry{Kind: segno.EntryMessage, Name: "agent", ID: t.messageID(), Body: clipText(t.saying.String())})
	}
}

// messageID names the entry of the message that the agent is saying.
func (t *turn) messageID() string { return fmt.Sprintf("said %d", t.count+1) }

// partEvery is how often a message that goes on is noted: what a crash may lose of it.
const partEvery = 500 * time.Millisecond

// notesParts has what the agent says noted while it says it.
func (s *session) notesParts(t *turn) {
	waits := false
	t.saySoon = func() {
		wait := partEvery - time.Since(t.partAt)
		switch {
		case waits:
		case wait <= 0:
			t.notePart()
		default:
			waits = true
			time.AfterFunc(wait, func() {
				s.box.put(0, func() {
					if waits = false; s.turn == t {
						t.notePart()
					}
				})
			})
		}
	}
}

// clipText is a text as an entry's body.
func clipText(text string) json.RawMessage {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return segno.Clip(acp.Encode(text))
}

// called merges what an update says of a tool call and notes it: the intent at
// once, and again when the input is known, the result when it ends.
func (t *turn) called(m acp.Message, update acp.Span) {
	id := m.Text(m.Find(update, "toolCallId"))
	if id == "" {
		return
	}
	t.callBehind = true
	c := t.calls[id]
	if c == nil {
		t.noteText()
		c = &call{id: id}
		if t.used[id] {
			c.id = fmt.Sprintf("%s (%d)", id, t.recoveries)
		}
		t.calls[id] = c
	}
	if c.merge(m, update) {
		c.stale = true
	}
	ends := !c.ended && (c.result.Status == "completed" || c.result.Status == "failed")
	if c.noted == 0 || c.stale && !c.ended && (ends || c.noted < maxIntents) {
		c.stale = false
		c.noted++
		t.record(segno.Entry{Kind: segno.EntryIntent, ID: c.id, Name: c.name, Body: segno.Clip(acp.Encode(c.intent))})
	}
	if ends {
		c.ended = true
		t.record(segno.Entry{Kind: segno.EntryResult, ID: c.id, Name: c.name, Body: segno.Clip(acp.Encode(c.result))})
		c.result.Content, c.result.Output, c.intent.Input = nil, nil, nil // a turn may make thousands
	}
}

// merge takes over what an update says of the call. It reports whether the input or the
// name changed, which some agents announce in parts.
func (c *call) merge(m acp.Message, update acp.Span) (changed bool) {
	name, input := c.name, c.intent.Input
	put := func(into *json.RawMessage, key string) {
		if at := m.Find(update, key); !at.IsZero() && string(at.Of(m.Line)) != "null" {
			*into = append(json.RawMessage(nil), at.Of(m.Line)...)
		}
	}
	if title := m.Text(m.Find(update, "title")); title != "" {
		c.intent.Title = title
	}
	if kind := m.Text(m.Find(update, "kind")); kind != "" {
		c.intent.Kind = kind
	}
	if name := m.Text(m.Find(update, "_meta", "claudeCode", "toolName")); name != "" {
		c.name = name
	} else if name := m.Text(m.Find(update, "name")); name != "" {
		c.name = name
	} else if c.name == "" {
		c.name = c.intent.Kind
	}
	put(&c.intent.Input, "rawInput")
	put(&c.intent.Locations, "locations")
	put(&c.result.Content, "content")
	put(&c.result.Output, "rawOutput")
	if status := m.Text(m.Find(update, "status")); status != "" {
		c.result.Status = status
	}
	return c.name != name || !bytes.Equal(c.intent.Input, input)
}

// asks passes on a request of the agent, and notes one for permission.
func (s *session) asks(proc *process, m acp.Message) {
	if s.turn != nil && m.MethodName() == "session/request_permission" {
		s.note(segno.Entry{Kind: segno.EntryInterrupt, ID: permission(m), Name: m.Text(m.Find(m.Params, "toolCall", "title")),
			Body: permissionBody(m)})
	}
	s.proxy.askClient(proc, s, m)
}

// permissionBody is what is kept of a request for permission. A long one is kept without the
// call's input, which the entry of the call has: the options tell what the answer means.
func permissionBody(m acp.Message) json.RawMessage {
	params := m.Params.Of(m.Line)
	if len(params) <= segno.MaxUnclipped {
		return append(json.RawMessage(nil), params...)
	}
	call := m.Find(m.Params, "toolCall")
	return segno.Clip(acp.Encode(map[string]any{"options": json.RawMessage(m.Find(m.Params, "options").Of(m.Line)),
		"toolCall": map[string]string{"toolCallId": m.Text(m.Find(call, "toolCallId")), "title": timeline.Title(m.Text(m.Find(call, "title")))}}))
}

// permission names a request for permission: by the call it is for.
func permission(m acp.Message) string {
	if id := m.Text(m.Find(m.Params, "toolCall", "toolCallId")); id != "" {
		return timeline.PermissionID(id)
	}
	return timeline.PermissionID(m.IDText())
}

// answered notes what the client answered to a request for permission.
func (s *session) answered(q *asking, m acp.Message) {
	if s.turn == nil || q.method != "session/request_permission" {
		return
	}
	body := m.Result.Of(m.Line)
	if body == nil {
		body = m.Error.Of(m.Line)
	}
	s.note(segno.Entry{Kind: segno.EntryDecision, ID: q.permission, Body: segno.Clip(append(json.RawMessage(nil), body...))})
}

// note adds an entry to the open turn.
func (s *session) note(e segno.Entry) {
	t := s.turn
	if t == nil || t.unrecorded {
		return
	}
	e.Session, e.Time = s.up, s.proxy.Place.Now()
	if t.unwritten = append(t.unwritten, e); len(t.unwritten) > maxUnwritten {
		t.unwritten = t.unwritten[1:]
	}
	if err := s.writeNotes(t); err != nil && !t.complained {
		t.complained = true
		s.report("this turn is not recorded in full yet: %v", err)
	}
}

// maxUnwritten is how many entries of a turn are kept while the spool does not take
// them.
const maxUnwritten = 1000

// writeNotes adds the kept entries to the turn's spool, oldest first. What a full disk
// does not take is kept for the next call.
func (s *session) writeNotes(t *turn) error {
	for len(t.unwritten) > 0 {
		if err := s.proxy.Place.Spool().Note(s.proxy.ctx, t.key, t.unwritten[0]); err != nil {
			return err
		}
		t.unwritten = t.unwritten[1:]
	}
	return nil
}
