package web

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/timeline"
)

// ownAgent makes the parts of moves that need segno's own agent.
type ownAgent struct{ *Server }

// Command returns the command that continues a thread of segno's own agent, or nil for a thread of another agent.
func (a ownAgent) Command(t segno.Thread, args ...string) []string {
	if t.Agent != chat.Name {
		return nil
	}
	store := ""
	if a.Local != nil {
		store = a.Local.Place().Store
	}
	return chat.Command(store, t.ID, args...)
}

// Decide records the answer to a question. segno's own agent checks edited arguments against its tools.
func (a ownAgent) Decide(ctx context.Context, t segno.Thread, tl *timeline.Timeline, root string, d segno.Decision) error {
	if t.Agent == chat.Name && root != "" {
		return chat.Decide(ctx, chat.Config{Store: a.Store, Timeline: tl, Dir: root, Session: string(t.ID), Now: a.Now}, d)
	}
	return agent.New(agent.Config{Name: t.Agent, Store: a.Store, Now: a.Now}).Decide(ctx, string(t.ID), d)
}
