package hook

import (
	"context"
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/claude"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// queued returns the messages that the user typed during a turn and that the agent has not
// processed yet, oldest first. Claude Code 2.1.330 reports a message when it is typed, and does not
// report the turn that begins with it.
func (h *handler) queued(ctx context.Context, t timeline.OpenTurn) ([]string, error) {
	if h.agent.Name != claude.Name {
		return nil, nil
	}
	noted, _, err := h.spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	var added []string
	for _, e := range noted {
		if text := ""; e.Kind == segno.EntryMessage && e.Name == "user" && json.Unmarshal(e.Body, &text) == nil {
			added = append(added, text)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	n, err := h.Place.ClaudeTranscripts().Queued(ctx, h.source())
	if err != nil {
		return nil, err
	}
	return added[len(added)-min(n, len(added)):], nil
}

// beginQueued opens the turn that the agent begins with a queued message right after this event.
func (h *handler) beginQueued(ctx context.Context, before timeline.OpenTurn, text string) error {
	return h.withStore(ctx, func(ctx context.Context, store *local.Store) error {
		_, tl, err := h.timeline(ctx, store, before.Workspace)
		if err != nil {
			return err
		}
		_, err = tl.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(segno.NewID()), Agent: h.agent.Name, Source: before.Source, Text: text,
			Process: before.Process, Queued: true})
		return err
	})
}
