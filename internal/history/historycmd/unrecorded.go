package historycmd

import (
	"context"
	"time"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/local"
)

// unrecordedItem counts the sessions of an agent in a directory that have no turn, although the agent has hooks.
type unrecordedItem struct {
	Agent    string    `json:"agent"`
	Sessions int       `json:"sessions"`
	Since    time.Time `json:"since"` // when the first of them changed last
}

// findUnrecorded compares the session files of the agents that have hooks with the threads of a store.
func findUnrecorded(ctx context.Context, store *local.Store, dir string) ([]unrecordedItem, error) {
	items := []unrecordedItem{}
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
		item := unrecordedItem{Agent: agent, Sessions: len(found), Since: found[0].Modified.UTC()}
		for _, s := range found {
			if s.Modified.Before(item.Since) {
				item.Since = s.Modified.UTC()
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// text describes how many sessions have no turn: "2 sessions of codex since 2026-11-26 have no
// turn".
func (i unrecordedItem) text() string {
	verb := "have"
	if i.Sessions == 1 {
		verb = "has"
	}
	return cli.Plural(i.Sessions, "session") + " of " + cli.Clean(i.Agent) + " since " + i.Since.Local().Format(time.DateOnly) + " " + verb + " no turn"
}
