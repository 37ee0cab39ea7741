package sessions

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) sessions() *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions",
		Short: "the sessions of agents on this machine, newest first",
		Long: `Lists every session of Claude Code, Codex, Gemini CLI and OpenCode on this machine,
newest first, recorded by segno or not. Only the beginning and the end of a large transcript are
read, so its turns may be unknown ("?"). "kept" means that the store has the whole conversation;
the agent may then delete the session, and 'segno resume SESSION' still continues it.`,
		Example: "  segno sessions\n  segno sessions --json\n  segno log --thread 0b6a1f3e",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runSessions(c.Context()) },
	}
	c.AddCommand(a.keep(), a.moveSession(), a.heal())
	return c
}

type sessionItem struct {
	Agent    string          `json:"agent"`
	Session  segno.SessionID `json:"session"`
	Dir      string          `json:"dir"`
	Path     string          `json:"path"`
	Turns    *int            `json:"turns"` // null if the transcript is too large to count them
	Bytes    int64           `json:"bytes"`
	Title    string          `json:"title"`
	Modified time.Time       `json:"modified"`
	Live     bool            `json:"live"`
	Kept     bool            `json:"kept"`
	Thread   *segno.ThreadID `json:"thread"`
	PurgeAt  *time.Time      `json:"purge_at"` // null if the agent does not delete it

	DirBytes  []byte `json:"dir_bytes,omitempty"`
	PathBytes []byte `json:"path_bytes,omitempty"`
}

func newSessionItem(s local.SessionDetail) sessionItem {
	item := sessionItem{Agent: s.Agent, Session: s.Session, Dir: s.Dir, Path: s.Path, Bytes: s.Bytes, Title: timeline.Title(s.Title),
		Modified: s.Modified.UTC(), Live: s.Live != 0, Kept: s.Kept, DirBytes: segno.PathBytes(s.Dir), PathBytes: segno.PathBytes(s.Path)}
	if s.Turns >= 0 {
		item.Turns = &s.Turns
	}
	if s.Thread != "" {
		item.Thread = &s.Thread
	}
	if !s.Purge.IsZero() {
		at := s.Purge.UTC()
		item.PurgeAt = &at
	}
	return item
}

func (a *app) runSessions(ctx context.Context) error {
	place, err := a.OpenPlace()
	if err != nil {
		return err
	}
	store, err := a.StoreIfAny(ctx, place)
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
	}
	found, skipped := place.FindSessions(ctx)
	a.removeMoved(ctx, store, found)
	details, err := place.Details(ctx, store, found)
	if err != nil {
		return err
	}
	if store != nil && !store.ReadOnly() {
		if err := store.CompleteEnds(ctx, details); err != nil {
			a.Notef("%s", cli.Clean(err.Error()))
		}
	}
	items := []sessionItem{}
	for _, s := range details {
		if s.Err != nil {
			skipped = append(skipped, s.Err)
			continue
		}
		items = append(items, newSessionItem(s))
	}
	a.noteSkipped(skipped)
	return a.PrintLong(items, func(p *cli.Printer) {
		if len(items) == 0 {
			a.Notef("no sessions of an agent on this machine")
		}
		width := idWidth(items)
		for _, s := range items {
			a.writeSession(p, s, width)
		}
	})
}

// removeMoved removes the sources of sessions that were moved and continued since. A failure is only a note, because
// the old file does no harm.
func (a *app) removeMoved(ctx context.Context, store *local.Store, found []local.FoundSession) {
	if store == nil || store.ReadOnly() {
		return
	}
	for _, s := range found {
		if len(s.Copies) == 0 {
			continue
		}
		if _, err := store.SessionTimeline().RemoveMoved(ctx, s.Agent, s.Session, s.Copies); err != nil {
			a.Notef("%s", cli.Clean(err.Error()))
		}
	}
}

// noteSkipped names the first sessions that cannot be read, and counts the others.
func (a *app) noteSkipped(skipped []error) {
	for i, err := range skipped {
		if i == cli.MaxListed {
			a.Notef("skipped: %d more", len(skipped)-i)
			return
		}
		a.Notef("skipped: %s", cli.Clean(err.Error()))
	}
}

// idWidth returns the number of letters to show of each id, so that they identify each session.
func idWidth(items []sessionItem) int {
	width := 13 // the length of the timestamp at the start of some ids
	ids := make([]string, len(items))
	for i, s := range items {
		ids[i] = string(s.Session)
	}
	slices.Sort(ids)
	for i, id := range ids[min(1, len(ids)):] {
		same := 0
		for same < min(len(id), len(ids[i])) && id[same] == ids[i][same] {
			same++
		}
		width = max(width, same+1)
	}
	return width
}

func (a *app) writeSession(p *cli.Printer, s sessionItem, width int) {
	turns := "?"
	if s.Turns != nil {
		turns = cli.Plural(*s.Turns, "turn")
	}
	state := ""
	switch {
	case s.Live:
		state = "live"
	case s.Kept:
		state = "kept"
	case s.PurgeAt != nil && s.PurgeAt.Sub(a.Now()) < cli.DueWithin:
		state = p.Warn("deleted " + a.Until(*s.PurgeAt))
	}
	id := string(s.Session)
	p.Linef("%s %s %s %s %s %s  %s", a.Lead(p.Paint, cli.Pad(cli.Inline(id[:min(width, len(id))]), width), s.Modified), cli.Pad(cli.Inline(s.Agent), 7), cli.Pad(turns, 9),
		cli.Pad(cli.Size(s.Bytes), 10), cli.Pad(state, 4), cli.CleanLines(cmp.Or(s.Title, "(no title)")), p.Dim(cli.QuotePath(s.Dir)))
}
