package historycmd

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
)

// purgeItem is a session that an agent will soon delete.
type purgeItem struct {
	Agent    string    `json:"agent"`
	Sessions int       `json:"sessions"` // sessions that it may delete within a week or at any time
	NotKept  int       `json:"not_kept"` // those of them that the store does not have
	Next     time.Time `json:"next"`     // when it may delete the first of them
}

// findPurges returns the sessions that agents may delete within a week. It opens only the
// transcripts of these sessions.
func (a *app) findPurges(ctx context.Context, store *local.Store) ([]purgeItem, error) {
	found, _ := store.Place().FindSessions(ctx) // 'segno sessions' names those that cannot be read
	due := slices.DeleteFunc(found, func(s local.FoundSession) bool { return s.Purge.IsZero() || s.Purge.Sub(a.Now()) >= cli.DueWithin })
	details, err := store.Place().BriefDetails(ctx, store, due)
	if err != nil {
		return nil, err
	}
	items := []purgeItem{}
	for _, s := range details {
		if s.Err != nil || s.End == 0 {
			continue
		}
		i := slices.IndexFunc(items, func(p purgeItem) bool { return p.Agent == s.Agent })
		if i < 0 {
			i, items = len(items), append(items, purgeItem{Agent: s.Agent, Next: s.Purge.UTC()})
		}
		p := &items[i]
		if p.Sessions++; !s.Kept {
			p.NotKept++
		}
		if s.Purge.Before(p.Next) {
			p.Next = s.Purge.UTC()
		}
	}
	return items, nil
}

// writePurges prints when agents will delete sessions, a line for each agent.
func (a *app) writePurges(p *cli.Printer, items []purgeItem) {
	for _, item := range items {
		text := "all of them are kept"
		if item.NotKept > 0 {
			text = p.Warn(cli.Plural(item.NotKept, "session")+" not kept") + "; run 'segno sessions keep --all'"
		}
		p.Linef("%s may delete %s within a week, the first %s: %s", cli.Clean(item.Agent), cli.Plural(item.Sessions, "session"), a.Until(item.Next), text)
	}
}
