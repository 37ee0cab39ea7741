package proxy

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// recovery is the reason of a link for a session that took another's place in the
// midst of a turn.
const recovery = "recovery"

// foothold is a thread as it stands, and the session that stands there.
type foothold struct {
	head segno.Head
	at   *segno.Checkpoint // the head's
	turn *segno.Checkpoint // the newest turn at or above it, nil before the first
	link *segno.Link       // the newest session of the chain whose conversation ends with that turn, nil if none does
}

// turnID is the id of the newest turn, "" before the first.
func (h foothold) turnID() segno.CommitID {
	if h.turn == nil {
		return ""
	}
	return h.turn.ID
}

// footing finds out where the thread is.
func (s *session) footing(ctx context.Context) (h foothold, err error) {
	if h.head, err = s.proxy.store.Head(ctx, s.thread); err != nil {
		return h, err
	}
	if h.at, h.turn, err = s.above(ctx, h.head.Head); err != nil {
		return h, err
	}
	var chain []segno.Link
	for l, err := range s.proxy.store.Chain(ctx, s.thread) {
		if err != nil {
			return h, err
		}
		chain = append(chain, l)
	}
	seen := map[segno.SessionID]bool{}
	for i, l := range slices.Backward(chain) {
		if !seen[l.Session] && i+1 < len(chain) && chain[i+1].Reason == recovery {
			// It was lost in a turn that went on elsewhere: it may hold half of that.
			seen[l.Session], s.left[l.Session] = true, true
		}
		if seen[l.Session] || l.Agent != s.page.Agent || s.gone[l.Session] {
			continue
		}
		seen[l.Session] = true
		ok, err := s.stands(ctx, l, h)
		if err != nil {
			return h, err
		}
		if ok {
			h.link = &l
			return h, nil
		}
	}
	return h, nil
}

// stands reports whether a session's conversation ends with the turn the thread
// stands on: its newest turn is that one, or it was made there and had none yet.
func (s *session) stands(ctx context.Context, l segno.Link, h foothold) (bool, error) {
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: s.thread, Session: l.Session}) {
		if err != nil {
			return false, err
		}
		if c.Kind == segno.CheckpointTurn && c.Session.Session == l.Session {
			return h.turn != nil && c.ID == h.turn.ID, nil
		}
	}
	if l.At == "" {
		return h.turn == nil, nil
	}
	_, made, err := s.above(ctx, l.At)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	return err == nil && (made == nil) == (h.turn == nil) && (made == nil || made.ID == h.turn.ID), err
}

// above returns the newest checkpoint at or above a commit, and the newest turn.
func (s *session) above(ctx context.Context, at segno.CommitID) (c, turn *segno.Checkpoint, err error) {
	for last := 4; ; last *= 8 {
		line, err := s.proxy.store.Load(ctx, at, segno.Window{Last: last})
		if err != nil {
			return nil, nil, err
		}
		for _, n := range slices.Backward(line.Commits) {
			if n.Checkpoint == nil {
				continue
			}
			if c == nil {
				c = n.Checkpoint
			}
			if n.Checkpoint.Kind == segno.CheckpointTurn {
				return c, n.Checkpoint, nil
			}
		}
		if len(line.Commits) < last {
			return c, nil, nil
		}
	}
}
