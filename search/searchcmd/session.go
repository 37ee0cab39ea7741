package searchcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/search"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// updateSessions adds the sessions of agents to the index, except those whose turns the store has.
func (s *searching) updateSessions(ctx context.Context, deadline time.Time) error {
	place := s.store.Place()
	found, skipped := place.FindSessions(ctx)
	s.agents, s.turns = place.Transcripts(s.store.Objects()), map[string][]search.SessionTurn{}
	var all []search.Session
	kept := map[string]int{}
	for i := range found {
		f := &found[i]
		n, isRecorded, err := s.keptTurns(ctx, f.Agent, f.Session)
		if err != nil {
			return err
		}
		if !isRecorded {
			kept[f.Path] = n
			all = append(all, search.Session{Agent: f.Agent, Source: segno.Source{Session: f.Session, Path: f.Path}, Stamp: fmt.Sprint(f.Stamp(), " ", n), Modified: f.Modified})
		}
	}
	read := func(ctx context.Context, x *search.Session) ([]search.SessionTurn, error) {
		turns, err := search.ReadSession(ctx, s.agents[x.Agent], x)
		for i := range min(kept[x.Path], len(turns)) {
			turns[i].Text = search.Text{} // it is found as a checkpoint
		}
		return turns, err
	}
	fresh, err := s.index.UpdateSessions(ctx, all, read, deadline, s.Count("indexed", "session"))
	s.fresh.PendingSessions, s.fresh.DamagedSessions = fresh.PendingSessions, fresh.DamagedSessions+len(skipped)
	return err
}

// keptTurns returns the number of turns of a session that are checkpoints whose conversation the store's transcripts show, the
// first ones of the session. isRecorded is set if segno records its turns as they happen.
func (s *searching) keptTurns(ctx context.Context, agent string, id segno.SessionID) (n int, isRecorded bool, err error) {
	if _, ok := s.agents[agent].(transcript.ConversationReader); !ok {
		return 0, false, nil
	}
	for c, err := range s.store.Checkpoints(ctx, segno.CheckpointQuery{Session: id}) {
		if err != nil {
			return 0, false, err
		}
		if c.Kind != segno.CheckpointTurn || c.Session.Leaf == "" {
			continue
		}
		if n++; n > 1 {
			continue
		}
		line, err := s.store.Load(ctx, c.ID, segno.Window{Last: 1, Entries: true})
		if err != nil || len(line.Commits[0].Entries) > 0 {
			return 0, err == nil, err
		}
	}
	return n, false, nil
}

// sessionTurn returns the turn of a session that a hit is in.
func (s *searching) sessionTurn(ctx context.Context, h *search.Hit) (search.SessionTurn, error) {
	src := &h.Source
	all, ok := s.turns[string(src.Session)+src.Path]
	if !ok {
		var err error
		x := search.Session{Agent: src.Agent, Source: segno.Source{Session: src.Session, Path: src.Path}}
		if all, err = search.ReadSession(ctx, s.agents[src.Agent], &x); err != nil {
			return search.SessionTurn{}, err
		}
		s.turns[string(src.Session)+src.Path] = all
	}
	if h.Seq > int64(len(all)) {
		return search.SessionTurn{}, segno.NewError(segno.KindNotFound, "read session", string(src.Session), nil) // it changed meanwhile
	}
	return all[h.Seq-1], nil
}

func (s *searching) sessionItem(ctx context.Context, h *search.Hit) ([]item, error) {
	turn, err := s.sessionTurn(ctx, h)
	if err != nil {
		return nil, err
	}
	return []item{{Kind: segno.CheckpointTurn, Turn: int(h.Seq), Time: turn.Time, Agent: h.Source.Agent, Session: h.Source.Session, Field: h.Field.String(),
		Prompt: history.Cut(timeline.Title(turn.Prompt), maxText), Excerpt: s.query.Excerpt(h.Field, turn.Text[h.Field]), Score: h.Score, Missing: h.Missing}}, nil
}
