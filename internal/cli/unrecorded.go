package cli

import (
	"context"
	"time"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/local"
)

// UnrecordedItem counts the sessions of an agent in a directory that have no turn, although the agent has hooks.
type UnrecordedItem struct {
	Agent    string    `json:"agent"`
	Sessions int       `json:"sessions"`
	Since    time.Time `json:"since"` // when the first of them changed last
}

// FindUnrecorded compares the session files of the agents that have hooks with the threads of a store.
func FindUnrecorded(ctx context.Context, store *local.Store, dir string) ([]UnrecordedItem, error) {
	items := []UnrecordedItem{}
	for _, agent := range agents.WithHooks() {
		since, ok := hook.InstalledSince(store.Place(), agent, dir)
		if !ok {
			continue
		}
		found, err := store.WithoutThread(ctx, agent, dir, since)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue
		}
		item := UnrecordedItem{Agent: agent, Sessions: len(found), Since: found[0].Modified.UTC()}
		for _, s := range found {
			if s.Modified.Before(item.Since) {
				item.Since = s.Modified.UTC()
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// Text describes how many sessions have no turn: "2 sessions of codex since 2026-11-26 have no
// turn".
func (i UnrecordedItem) Text() string {
	verb := "have"
	if i.Sessions == 1 {
		verb = "has"
	}
	return Plural(i.Sessions, "session") + " of " + Clean(i.Agent) + " since " + i.Since.Local().Format(time.DateOnly) + " " + verb + " no turn"
}
