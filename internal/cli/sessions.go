package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

func (a *app) sessions() *cobra.Command {
	return &cobra.Command{
		Use:   "sessions",
		Short: "the sessions of agents on this machine, newest first",
		Long: `Lists every session of Claude Code and Codex on this machine, newest first, recorded by
segno or not. Only the beginning and the end of a large transcript are read, so its turns may be
unknown ("?"). "kept" means that the store has the whole conversation; the agent may then
delete the session, and 'segno resume SESSION' still continues it.`,
		Example: "  segno sessions\n  segno sessions --json\n  segno log --thread 0b6a1f3e",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runSessions(c.Context()) },
	}
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
	place, err := a.place()
	if err != nil {
		return err
	}
	store, err := a.storeIfAny(ctx, place)
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
			a.notef("%s", clean(err.Error()))
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
	return a.printLong(items, func(p *printer) {
		if len(items) == 0 {
			a.notef("no sessions of an agent on this machine")
		}
		width := idWidth(items)
		for _, s := range items {
			a.writeSession(p, s, width)
		}
	})
}

// storeIfAny opens the store, and returns nil if there is none.
func (a *app) storeIfAny(ctx context.Context, place local.Place) (*local.Store, error) {
	if !place.Exists() {
		return nil, nil
	}
	return place.Open(ctx)
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
			a.notef("%s", clean(err.Error()))
		}
	}
}

// noteSkipped names the first sessions that cannot be read, and counts the others.
func (a *app) noteSkipped(skipped []error) {
	for i, err := range skipped {
		if i == maxListed {
			a.notef("skipped: %d more", len(skipped)-i)
			return
		}
		a.notef("skipped: %s", clean(err.Error()))
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

func (a *app) writeSession(p *printer, s sessionItem, width int) {
	turns := "?"
	if s.Turns != nil {
		turns = plural(*s.Turns, "turn")
	}
	state := ""
	switch {
	case s.Live:
		state = "live"
	case s.Kept:
		state = "kept"
	case s.PurgeAt != nil && s.PurgeAt.Sub(a.now()) < dueWithin:
		state = p.warn("deleted " + a.until(*s.PurgeAt))
	}
	id := string(s.Session)
	p.linef("%s %s %s %s %s %s  %s", a.lead(p.paint, pad(inline(id[:min(width, len(id))]), width), s.Modified), pad(inline(s.Agent), 7), pad(turns, 9),
		pad(size(s.Bytes), 10), pad(state, 4), cleanLines(cmp.Or(s.Title, "(no title)")), p.dim(quotePath(s.Dir)))
}

// dueWithin is the time before the deletion of a session in which segno warns.
const dueWithin = 7 * 24 * time.Hour

// until formats the time until a moment, in days.
func (a *app) until(at time.Time) string {
	switch days := int(at.Sub(a.now()) / (24 * time.Hour)); {
	case at.Before(a.now()):
		return "any time"
	case days == 0:
		return "within a day"
	default:
		return "in " + plural(days, "day")
	}
}

// sessionNamed returns the session with an id or a prefix of an id. It prefers a session that an
// agent has. A session that only the store has has no path. store may be nil.
func (a *app) sessionNamed(ctx context.Context, place local.Place, store *local.Store, name string) (local.FoundSession, error) {
	found, _ := place.FindSessions(ctx)
	id := func(s local.FoundSession) string { return string(s.Session) }
	query := idprefix.Query{What: "session", Name: name, Hint: "run 'segno sessions'", Turns: true}
	s, err := idprefix.Find(query, idprefix.Values(found), id)
	if segno.KindOf(err) != segno.KindNotFound || store == nil {
		return s, err
	}
	var stored []local.FoundSession
	for t, listErr := range store.Threads(ctx, segno.ThreadQuery{}) {
		if listErr != nil {
			return s, listErr
		}
		chain, listErr := history.Chain(ctx, store, t.ID)
		if listErr != nil {
			return s, listErr
		}
		for _, l := range chain {
			stored = append(stored, local.FoundSession{Agent: l.Agent, SessionFile: transcript.SessionFile{Session: l.Session}})
		}
	}
	return idprefix.Find(query, idprefix.Values(stored), id)
}

// keepRequest returns the request to keep a session, with the workspace of its directory if that is
// known.
func keepRequest(ctx context.Context, store *local.Store, s local.SessionDetail) timeline.KeepRequest {
	r := timeline.KeepRequest{Agent: s.Agent, Source: segno.Source{Session: s.Session, Path: s.Path, Dir: s.Dir}}
	if s.Dir != "" {
		if rec, err := store.Find(ctx, s.Dir); err == nil {
			r.Workspace = rec.ID
		}
	}
	return r
}

// detail returns the known details of one session. If the agent no longer has the session, the
// directory is the one that the store recorded.
func (a *app) detail(ctx context.Context, store *local.Store, s local.FoundSession) (d local.SessionDetail, err error) {
	if s.Path == "" {
		d.FoundSession = s
		d.Dir, err = store.SessionDir(ctx, s.Session)
		return d, err
	}
	all, err := store.Place().Details(ctx, store, []local.FoundSession{s})
	if err != nil {
		return d, err
	}
	return all[0], all[0].Err
}

// isSessionName reports whether a name may be that of an agent's session: the beginning of a UUID, or of an id of
// OpenCode, which is "ses_" followed by letters and digits.
func isSessionName(name string) bool {
	const least = 8
	if rest, ok := strings.CutPrefix(name, "ses_"); ok {
		return len(name) >= least && !strings.ContainsFunc(rest, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
	}
	return len(name) >= least && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'f') && (r < 'A' || r > 'F')
	})
}
