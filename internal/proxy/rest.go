package proxy

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// rest compares what an agent replays of an interrupted turn, the newest, with the record:
// an agent that is killed loses what it has not written yet.
type rest struct {
	turn   *segno.Checkpoint
	asked  prompts // the newest prompt that was replayed
	found  bool    // the turn's prompt was
	said   []string
	id     string // of the message that is being said
	within bool   // it goes on
	calls  map[string]bool
}

// hear takes an update of the replay.
func (r *rest) hear(m acp.Message) {
	update := m.Find(m.Params, "update")
	kind := m.Text(m.Find(update, "sessionUpdate"))
	if kind == "user_message_chunk" {
		if !r.asked.within {
			r.asked.heard = nil
		}
		if r.asked.hear(m); r.asked.last(r.turn.Prompt) {
			*r = rest{turn: r.turn, asked: r.asked, found: true, calls: map[string]bool{}}
		}
		return
	}
	if r.asked.hear(m); !r.found {
		return
	}
	if kind != "agent_message_chunk" {
		r.within = false
	}
	switch kind {
	case "agent_message_chunk":
		if id := m.Text(m.Find(update, "messageId")); !r.within || id != r.id {
			r.said, r.id, r.within = append(r.said, ""), id, true
		}
		r.said[len(r.said)-1] += m.Text(m.Find(update, "content", "text"))
	case "tool_call":
		r.calls[m.Text(m.Find(update, "toolCallId"))] = true
	}
}

// missing is what a recorded message has that the agent did not replay.
func (r *rest) missing(text string) string {
	if slices.ContainsFunc(r.said, func(said string) bool { return strings.Contains(normal(said), normal(text)) }) {
		return ""
	}
	if n := len(r.said); n > 0 {
		return strings.TrimPrefix(text, r.said[n-1])
	}
	return text
}

// showRest shows the client what is recorded of the turn and was not replayed.
func (s *session) showRest(ctx context.Context, r *rest) error {
	line, err := s.proxy.store.Load(ctx, r.turn.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	for _, n := range line.Commits {
		for i, e := range n.Entries {
			switch {
			case r.found && e.Kind == segno.EntryMessage && e.Name == "user":
			case r.found && (e.Kind == segno.EntryIntent || e.Kind == segno.EntryResult) && r.calls[e.ID]:
			case e.Kind == segno.EntryMessage && e.Name == "agent":
				if text := r.missing(entryText(e.Body)); text != "" {
					e.Body = clipText(text)
					s.show(n.ID, i, e)
				}
			default:
				s.show(n.ID, i, e)
			}
		}
	}
	s.endReplayedCalls()
	return nil
}
