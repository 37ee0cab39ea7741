package worldagent

import (
	"context"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

const (
	maxText  = 256 << 10 // bytes of the agent's text between two tool calls that are recorded
	maxCalls = 10_000    // calls of a turn that are recorded
)

// turnOutput is the agent's output in a turn.
type turnOutput struct {
	text        strings.Builder // since the last entry
	updates     int
	calls       map[string]bool // by id; true once the call has ended
	systemError bool            // codex reported that the turn failed
}

// preamble describes the earlier turns, for a session that replaces a lost one.
func (r *record) preamble() string { return r.words.Text(preamble.Options{}) }

// update records an update of the turn. Updates before the prompt are a replay.
func (t *acpTurn) update(ctx context.Context, m acp.Message) error {
	if t.session == "" || m.SessionID() != string(t.session) {
		return nil
	}
	update := m.Find(m.Params, "update")
	t.updates++
	switch m.Text(m.Find(update, "sessionUpdate")) {
	case "agent_message_chunk":
		if text := m.Text(m.Find(update, "content", "text")); t.text.Len()+len(text) <= maxText {
			t.text.WriteString(text)
		}
	case "tool_call", "tool_call_update":
		return t.updateCall(ctx, m, update)
	case "session_info_update":
		if status := m.Text(m.Find(update, "_meta", "codex", "threadStatus", "type")); status != "" {
			t.systemError = status == "systemError"
		}
	}
	return nil
}

// updateCall records a call when it begins and when it ends.
func (t *acpTurn) updateCall(ctx context.Context, m acp.Message, update acp.Span) error {
	id := m.Text(m.Find(update, "toolCallId"))
	hasEnded, known := t.calls[id]
	status := m.Text(m.Find(update, "status"))
	isEnd := status == "completed" || status == "failed"
	if hasEnded || known && !isEnd || !known && len(t.calls) >= maxCalls {
		return nil
	}
	if t.calls == nil {
		t.calls = map[string]bool{}
	}
	t.calls[id] = isEnd
	part := func(key string) any {
		var v any
		_ = m.Decode(m.Find(update, key), &v) // the message is valid JSON
		return v
	}
	var entries []segno.Entry
	if t.text.Len() > 0 {
		entries = append(entries, segno.Entry{Kind: segno.EntryMessage, Name: "agent", Body: encode(t.text.String())})
		t.text.Reset()
	}
	title, kind := m.Text(m.Find(update, "title")), m.Text(m.Find(update, "kind"))
	if !known {
		entries = append(entries, segno.Entry{Kind: segno.EntryIntent, ID: id, Name: title,
			Body: segno.Clip(encode(map[string]any{"title": title, "kind": kind, "input": part("rawInput"), "locations": part("locations")}))})
	}
	if isEnd {
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: id, Name: title,
			Body: segno.Clip(encode(map[string]any{"status": status, "content": part("content"), "output": part("rawOutput")}))})
	}
	return t.record.add(ctx, nil, entries...)
}
