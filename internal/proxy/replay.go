package proxy

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// replay sends the client the thread's line from our log, oldest first, as an agent
// that loads a session does. Turns whose prompt the client was shown are left out; shown
// may be nil.
func (s *session) replay(ctx context.Context, shown *prompts) error {
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return err
	}
	line, err := s.proxy.store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	live := s.calls // of the turn under way
	s.calls = nil
	defer func() { s.calls = live }()
	for _, n := range line.Commits {
		if n.Checkpoint == nil || n.Checkpoint.Kind != segno.CheckpointTurn || shown != nil && shown.has(n.Checkpoint.Prompt) {
			continue
		}
		if len(n.Entries) == 0 { // a turn from before segno
			s.say(chunk("user_message_chunk", n.Checkpoint.Prompt))
		}
		for i, e := range n.Entries {
			s.show(n.ID, i, e)
		}
		s.endReplayedCalls()
	}
	return nil
}

// show sends the client the update that shows an entry of a commit, if one does. Messages
// get an id: a client joins those that have none.
func (s *session) show(commit segno.CommitID, i int, e segno.Entry) {
	update := replayed(e)
	if update == nil {
		return
	}
	if e.Kind == segno.EntryMessage {
		update["messageId"] = "segno-" + segno.DerivedID("message", string(commit), strconv.Itoa(i))
	}
	if status, ok := update["status"].(string); ok {
		s.calls.see("", e.ID, status)
	}
	s.say(update)
}

// endReplayedCalls ends the calls of a turn that has no result of them.
func (s *session) endReplayedCalls() {
	for _, id := range s.calls {
		s.say(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed",
			"content": toolText("The turn ended before this call did. What came of it is not on record.")})
	}
	s.calls = nil
}

// toolText is a text as a tool call's content.
func toolText(text string) []any {
	return []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": text}}}
}

func chunk(kind, text string) map[string]any {
	return map[string]any{"sessionUpdate": kind, "content": map[string]any{"type": "text", "text": text}}
}

// replayed is the update that shows an entry, nil if none does.
func replayed(e segno.Entry) map[string]any {
	switch e.Kind {
	case segno.EntryMessage:
		kind := "agent_message_chunk"
		if e.Name == "user" {
			kind = "user_message_chunk"
		}
		return chunk(kind, entryText(e.Body))
	case segno.EntryIntent:
		return replayedIntent(e)
	case segno.EntryResult:
		return replayedResult(e)
	case segno.EntryNote:
		if e.Name == "plan" && json.Valid(e.Body) && e.Body[0] == '[' {
			return map[string]any{"sessionUpdate": "plan", "entries": e.Body}
		}
	}
	return nil
}

// entryText is the text of an entry's body, with what was left out of a long one
// marked.
func entryText(body json.RawMessage) string {
	var text string
	if json.Unmarshal(body, &text) == nil {
		return text
	}
	var long struct {
		Clipped segno.Clipped `json:"clipped"`
	}
	if json.Unmarshal(body, &long) == nil && long.Clipped.Bytes > 0 {
		return long.Clipped.Head + "\n…\n" + long.Clipped.Tail
	}
	return string(body)
}

func replayedIntent(e segno.Entry) map[string]any {
	var asked struct {
		Title     string          `json:"title"`
		Kind      string          `json:"kind"`
		Input     json.RawMessage `json:"input"`
		Locations json.RawMessage `json:"locations"`
	}
	_ = json.Unmarshal(e.Body, &asked) // a hook's entry is the input itself
	update := map[string]any{"sessionUpdate": "tool_call", "toolCallId": e.ID, "title": asked.Title, "status": "pending"}
	if asked.Title == "" {
		update["title"] = e.Name
	}
	switch {
	case asked.Input != nil:
		update["rawInput"] = asked.Input
	case asked.Title == "" && json.Valid(e.Body):
		update["rawInput"] = e.Body
	}
	if asked.Kind != "" {
		update["kind"] = asked.Kind
	}
	if asked.Locations != nil {
		update["locations"] = asked.Locations
	}
	return update
}

func replayedResult(e segno.Entry) map[string]any {
	var got struct {
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
		Error   json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(e.Body, &got)
	update := map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": e.ID, "status": "completed"}
	if got.Status == "failed" || got.Error != nil {
		update["status"] = "failed"
	}
	switch {
	case got.Content != nil:
		update["content"] = got.Content
	case got.Status == "":
		update["content"] = toolText(entryText(acp.Encode(e.Body)))
	}
	if got.Output != nil {
		update["rawOutput"] = got.Output
	}
	return update
}
