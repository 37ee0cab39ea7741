package hook

import (
	"context"
	"encoding/json"
	"os/exec"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/codex"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// eventNotify is the event of the setting notify of Codex: a turn has ended.
const eventNotify = "agent-turn-complete"

// codexAgent returns Codex, the only agent with the setting notify.
func codexAgent() agent { return agent{codex.Profile()} }

// Notify handles the arguments that Codex gives to segno's command in its setting notify. They are
// the command that segno replaced in the setting, and the notification. Notify runs that command
// with the notification. Like a hook, Notify reports failures only in the log. It records the turn
// unless hooks did. If e has no store, Notify only runs the user's command.
func Notify(ctx context.Context, args []string, e Event) {
	if len(args) == 0 {
		return
	}
	last := len(args) - 1
	if last > 0 {
		// Codex ignores the outcome of the command, and the user's command may run longer than segno.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...)
		if err := cmd.Start(); err != nil && e.Place.Store != "" {
			event.Log{Store: e.Place.Store}.Append("run the notify command of the user", "", err)
		}
	}
	if e.Place.Store != "" {
		codexAgent().record(ctx, e, func() (event.Payload, error) { return readNotification(args[last]) })
	}
}

// readNotification reads a notification as an event.
func readNotification(text string) (event.Payload, error) {
	var n struct {
		Type    string          `json:"type"`
		Thread  segno.SessionID `json:"thread-id"`
		Turn    string          `json:"turn-id"`
		Cwd     string          `json:"cwd"`
		Inputs  []string        `json:"input-messages"`
		Message string          `json:"last-assistant-message"`
	}
	if json.Unmarshal([]byte(text), &n) != nil || n.Type == "" {
		return event.Payload{}, segno.Errorf(segno.KindInvalid, "read notification", "", "it is not a JSON object with a type")
	}
	p := event.Payload{Event: n.Type, Session: n.Thread, PromptID: n.Turn, Cwd: n.Cwd, LastMessage: n.Message}
	if len(n.Inputs) > 0 {
		p.Prompt = n.Inputs[len(n.Inputs)-1]
	}
	return p, nil
}

// notified records a turn for which hooks reported nothing. The turn's changes begin at the newest
// checkpoint. Sessions without a rollout, such as the one in which Codex makes a title, and
// subagents have no turns.
func (h *handler) notified(ctx context.Context) error {
	if h.Session == "" || h.PromptID == "" {
		return segno.NewError(segno.KindInvalid, "end turn", "", errNoSession)
	}
	src, err := h.Place.CodexTranscripts().Find(ctx, h.Session)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if h.Transcript = src.Path; h.OfParent().AgentID != "" {
		return nil
	}
	return h.withStore(ctx, func(ctx context.Context, store *local.Store) error {
		if held, err := store.Leased(ctx, h.Session); err != nil || held {
			return err
		}
		_, tl, err := h.timeline(ctx, store, "")
		if err != nil {
			return err
		}
		return tl.EndUnseenTurn(ctx, h.Prompt, timeline.TurnEnd{Key: segno.TurnKey(h.PromptID), Agent: h.agent.Name,
			Source: h.source(), Message: h.LastMessage})
	})
}
