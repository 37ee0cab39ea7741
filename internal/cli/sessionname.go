package cli

import (
	"context"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// StoreIfAny opens the store, and returns nil if there is none.
func (a *App) StoreIfAny(ctx context.Context, place local.Place) (*local.Store, error) {
	if !place.Exists() {
		return nil, nil
	}
	return place.Open(ctx)
}

// SessionNamed returns the session with an id or a prefix of an id. It prefers a session that an
// agent has. A session that only the store has has no path. store may be nil.
func (a *App) SessionNamed(ctx context.Context, place local.Place, store *local.Store, name string) (local.FoundSession, error) {
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

// KeepRequest returns the request to keep a session, with the workspace of its directory if that is
// known.
func KeepRequest(ctx context.Context, store *local.Store, s local.SessionDetail) timeline.KeepRequest {
	r := timeline.KeepRequest{Agent: s.Agent, Source: segno.Source{Session: s.Session, Path: s.Path, Dir: s.Dir}}
	if s.Dir != "" {
		if rec, err := store.Find(ctx, s.Dir); err == nil {
			r.Workspace = rec.ID
		}
	}
	return r
}

// Detail returns the known details of one session. If the agent no longer has the session, the
// directory is the one that the store recorded.
func (a *App) Detail(ctx context.Context, store *local.Store, s local.FoundSession) (d local.SessionDetail, err error) {
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

// IsSessionName reports whether a name may be that of an agent's session: the beginning of a UUID, or of an id of
// OpenCode, which is "ses_" followed by letters and digits.
func IsSessionName(name string) bool {
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

// HealReason is the reason that the chain of a thread records for a repaired copy.
const HealReason = "heal"
