package proxy

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// reasonRecovery is the reason in a link to a session that replaced another one within a turn.
const reasonRecovery = "recovery"

// threadState is the position of a thread, and the agent's session at that position.
type threadState struct {
	head segno.Head
	at   *segno.Checkpoint // the newest checkpoint at or above the head
	turn *segno.Checkpoint // the newest turn there, nil before the first
	link *segno.Link       // the newest session of the chain that ends with that turn; nil if none does
}

// turnID is the id of the newest turn, "" before the first.
func (st threadState) turnID() segno.CommitID {
	if st.turn == nil {
		return ""
	}
	return st.turn.ID
}

// position is the newest recorded position in the transcript of the link's session: the end of
// the newest turn, or of the cut that made the session. It is nil if neither is known.
func (st threadState) position() *segno.Position {
	if st.turn != nil && st.turn.Session != nil && st.turn.Session.Session == st.link.Session {
		return st.turn.Session
	}
	return st.link.Position
}

// state reads the thread's state. It adds the sessions that were replaced within a turn to
// replaced: such a session may have half of a turn, so it cannot continue the thread. If a
// session is in the chain several times, only its newest link counts.
func (l *sessionStore) state(ctx context.Context) (st threadState, err error) {
	if st.head, err = l.proxy.store.Head(ctx, l.record.Thread); err != nil {
		return st, err
	}
	if st.at, st.turn, err = l.newestAt(ctx, st.head.Head); err != nil {
		return st, err
	}
	chain, err := collect(l.proxy.store.Chain(ctx, l.record.Thread), nil)
	if err != nil {
		return st, err
	}
	seen := map[segno.SessionID]bool{}
	for i, link := range slices.Backward(chain) {
		if seen[link.Session] {
			continue
		}
		if i+1 < len(chain) && chain[i+1].Reason == reasonRecovery {
			seen[link.Session], l.replaced[link.Session] = true, true
			continue
		}
		if link.Agent != l.record.Agent || l.unusable[link.Session] {
			continue
		}
		seen[link.Session] = true
		if ends, err := l.endsAt(ctx, link, st); err != nil {
			return st, err
		} else if ends {
			st.link = &link
			return st, nil
		}
	}
	return st, nil
}

// endsAt reports whether a session's conversation ends with the thread's newest turn: the
// session's newest turn is that turn, or the session began at that turn and has had none
// since.
func (l *sessionStore) endsAt(ctx context.Context, link segno.Link, st threadState) (bool, error) {
	query := segno.CheckpointQuery{Thread: l.record.Thread, Session: link.Session}
	c, err := find(l.proxy.store.Checkpoints(ctx, query), func(c *segno.Checkpoint) bool {
		return c.Kind == segno.CheckpointTurn && c.Session.Session == link.Session
	})
	if err != nil {
		return false, err
	}
	if c != nil {
		return c.ID == st.turnID(), nil
	}
	if link.At == "" {
		return st.turn == nil, nil
	}
	_, turn, err := l.newestAt(ctx, link.At)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	return err == nil && threadState{turn: turn}.turnID() == st.turnID(), err
}

// hasEarlierTurns reports whether a session of an earlier process of the agent has the turns before its own. A session with a preamble
// receives it with its first prompt, and an agent that ended before it answered may not have got that prompt.
func (l *sessionStore) hasEarlierTurns(ctx context.Context, up segno.SessionID) (bool, error) {
	if l.record.Thread == "" {
		return true, nil // no turn is recorded
	}
	began, err := l.beganWithPreamble(ctx, up)
	if err != nil || !began {
		return err == nil, err
	}
	hadTurn := false
	query := segno.CheckpointQuery{Thread: l.record.Thread, Session: up}
	for c, err := range l.proxy.store.Checkpoints(ctx, query) {
		if err != nil {
			return false, err
		}
		if c.Kind != segno.CheckpointTurn {
			continue
		}
		hadTurn = true
		if !c.Interrupted {
			return true, nil
		}
		commits, err := l.entriesOf(ctx, &c)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(commits, func(n segno.Node) bool { return slices.ContainsFunc(n.Entries, isOutputOf(up)) }) {
			return true, nil
		}
	}
	return !hadTurn, nil // without a turn, the next prompt has the preamble
}

// isOutputOf returns a function that reports whether an entry shows that the agent answered in a session.
func isOutputOf(up segno.SessionID) func(segno.Entry) bool {
	return func(e segno.Entry) bool {
		return e.Session == up && (e.Kind == segno.EntryIntent || e.Kind == segno.EntryMessage && e.Name == "agent")
	}
}

// beganWithPreamble reports whether a session of the chain received the conversation before it as a preamble.
func (l *sessionStore) beganWithPreamble(ctx context.Context, up segno.SessionID) (bool, error) {
	link, err := find(l.proxy.store.Chain(ctx, l.record.Thread), func(k *segno.Link) bool {
		return k.Session == up && k.Fidelity == segno.FidelityPreamble
	})
	return link != nil, err
}

// newestAt returns the newest checkpoint and the newest turn at or above a commit.
func (l *sessionStore) newestAt(ctx context.Context, at segno.CommitID) (c, turn *segno.Checkpoint, err error) {
	for last := 4; ; last *= 8 {
		line, err := l.proxy.store.Load(ctx, at, segno.Window{Last: last})
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

// entriesOf returns the commits of one turn with their entries.
func (l *sessionStore) entriesOf(ctx context.Context, turn *segno.Checkpoint) ([]segno.Node, error) {
	line, err := l.proxy.store.Load(ctx, turn.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return nil, err
	}
	return line.Commits, nil
}
