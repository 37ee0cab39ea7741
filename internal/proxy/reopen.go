package proxy

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
)

// What stands for an agent's answer where we know better than to ask it.
var (
	errShort  = &acp.Error{Code: acp.CodeNotFound, Message: "the session no longer has all of its turns"}
	errCannot = &acp.Error{Code: acp.CodeMethodNotFound, Message: "the agent cannot resume sessions"}
)

// refused reports whether an agent's answer to opening a session says that no other
// way would do either: it wants a login, or somebody else has the session.
func (s *session) refused(err error) bool {
	var answer *acp.Error
	if !errors.As(err, &answer) || answer == errShort || answer == errCannot {
		return false
	}
	id := s.proxy.agent.identity()
	meaning := failure.Classify(failure.Outcome{Agent: id.Name, Version: id.Version, Method: "session/resume", Err: answer, OutputTokens: -1})
	return meaning.Session == failure.Kept && meaning.Turn == failure.Failed
}

// holder is the ability of transcripts to say whether a session still has what a
// position has of it.
type holder interface {
	BeginsWith(ctx context.Context, src segno.Source, p segno.Position) (bool, error)
}

// reopen has the agent load one of its sessions, without the client's seeing it
// again. last is the turn it must still have, nil if none. That an agent takes an id
// does not mean that it has the conversation: where its transcript cannot be read it
// is asked to replay it. The error is an [*acp.Error] if the agent will not, or has
// lost it.
func (s *session) reopen(ctx context.Context, proc *process, up segno.SessionID, last *segno.Checkpoint) error {
	id := s.proxy.agent.identity()
	if !id.Resume && !id.Load {
		return errCannot
	}
	if last != nil && last.Session.Session != up {
		last = nil
	}
	s.knowsPrompt = false
	readable, err := s.holds(ctx, up, last)
	if err != nil {
		return err
	}
	s.proxy.announce(s, up, nil)
	var m acp.Message
	switch {
	case readable && id.Resume && !s.listens, !id.Load:
		m, err = s.openCall(ctx, proc, "session/resume", up, nil)
		if isAnswer(err) && id.Load {
			m, err = s.openCall(ctx, proc, "session/load", up, nil)
		}
	default:
		var heard *prompts
		if heard, err = s.witnesses(ctx, up, last); err != nil {
			return err
		}
		if m, err = s.openCall(ctx, proc, "session/load", up, heard); err == nil && !readable {
			if !heard.whole() {
				return errShort
			}
			s.knowsPrompt = s.turn != nil && heard.last(s.turn.text)
		}
	}
	if err != nil {
		return err
	}
	s.opens(proc, m)
	return s.replaySettings(context.WithoutCancel(ctx), proc)
}

// holds reports whether the session's transcript can be read here, or need not be; the
// error says that it no longer has the turn.
func (s *session) holds(ctx context.Context, up segno.SessionID, last *segno.Checkpoint) (readable bool, err error) {
	site, err := s.site(ctx)
	if err != nil {
		return false, err
	}
	t := site.Transcripts[s.page.Agent]
	if t == nil {
		return s.proxy.agent.identity().ours(), nil // what it says it has it has
	}
	h, ok := t.(holder)
	if !ok || last == nil {
		return true, nil
	}
	whole, err := h.BeginsWith(ctx, segno.Source{Session: up, Dir: s.page.Dir}, *last.Session)
	if err != nil || !whole {
		s.proxy.logf("%s: the transcript of session %s does not begin as it did (%v)", brief(s.id), up, err)
		return true, errShort
	}
	return true, nil
}

// openCall asks the agent to open a session as the client did this one. What it
// replays of one it loads the client does not see; heard, if not nil, does.
func (s *session) openCall(ctx context.Context, proc *process, method string, up segno.SessionID, heard *prompts) (acp.Message, error) {
	defer s.opening()()
	if method != "session/load" {
		return s.proxy.agent.call(ctx, proc, method, s.params(up, nil), nil)
	}
	past := s.history
	if !s.listens {
		past = nil
	}
	s.setMute(func(m acp.Message) {
		if heard != nil {
			heard.hear(m)
		}
		if past != nil {
			past.hear(m)
		}
	})
	defer s.setMute(nil)
	return s.proxy.agent.call(ctx, proc, method, s.params(up, nil), func() { s.setMute(nil) })
}
