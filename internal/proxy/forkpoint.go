package proxy

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// forkPoints says which agents fork at a message, from which version on. Older ones
// ignore the message and fork at the head, without a word: the npm packages of the
// versions before show that they do not know the field.
var forkPoints = [...]struct{ agent, since string }{
	{"claude-agent-acp", "0.75.0"},
	{"codex-acp", "1.8.0"},
	{ownAgent, "0"},
}

func honoursForkPoint(id identity) bool {
	for _, p := range forkPoints {
		if strings.Contains(id.Name, p.agent) {
			return !older(id.Version, p.since)
		}
	}
	return false
}

// older compares two versions by their three numbers.
func older(a, b string) bool {
	return slices.Compare(numbers(a), numbers(b)) < 0
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.SplitN(version, "-", 2)[0], ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = 0
		}
		out = append(out, n)
	}
	return out
}

// forkAt has the agent fork the session a turn was in, right behind that turn; more
// says that there is a turn behind it that has not ended. It returns "" if the agent
// cannot, refuses, or made something else: agents that know no fork point ignore it
// in silence.
func (s *session) forkAt(ctx context.Context, proc *process, turn *segno.Checkpoint, more bool) (segno.SessionID, error) {
	if turn.Session == nil || turn.Session.Agent != s.page.Agent || s.gone[turn.Session.Session] {
		return "", nil
	}
	newest, err := s.newestOf(ctx, turn.Session.Session)
	if err != nil {
		return "", err
	}
	point := map[string]any{}
	atHead := !more && !s.left[turn.Session.Session] && newest != nil && newest.ID == turn.ID
	if !atHead {
		message, err := s.messageOf(ctx, turn)
		if err != nil || message == "" || !honoursForkPoint(s.proxy.agent.identity()) {
			return "", err
		}
		point["_meta"] = map[string]any{"jetbrains": map[string]any{"air": map[string]any{"fork": map[string]any{"version": 1, "messageId": message}}}}
	}
	m, err := s.proxy.agent.call(ctx, proc, "session/fork", s.params(turn.Session.Session, point), nil)
	if isAnswer(err) {
		s.proxy.logf("the agent does not fork: %v", err)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	up := segno.SessionID(m.SessionID())
	s.opens(proc, m)
	if atHead || up == "" {
		return up, nil
	}
	if err := s.verifyFork(ctx, proc, up, turn); err != nil {
		if isAnswer(err) || errors.Is(err, errOtherFork) {
			s.proxy.logf("%v", err)
			return "", nil
		}
		return "", err
	}
	return up, nil
}

// errOtherFork says that a fork does not end where it should.
var errOtherFork = errors.New("the agent's fork does not end at the turn it was asked for")

// verifyFork has the agent show a fork it made, and reports one whose last prompt is
// not the turn's.
func (s *session) verifyFork(ctx context.Context, proc *process, up segno.SessionID, turn *segno.Checkpoint) error {
	if !s.proxy.agent.identity().Load {
		return nil
	}
	var shown prompts
	s.proxy.announce(s, up, nil)
	s.setMute(shown.hear)
	_, err := s.proxy.agent.call(ctx, proc, "session/load", s.params(up, nil), func() { s.setMute(nil) })
	s.setMute(nil)
	if err != nil {
		return err
	}
	if !shown.last(turn.Prompt) {
		return errOtherFork
	}
	return nil
}

// newestOf returns the newest turn that ended in a session.
func (s *session) newestOf(ctx context.Context, up segno.SessionID) (*segno.Checkpoint, error) {
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Session: up}) {
		if err != nil {
			return nil, err
		}
		if c.Kind == segno.CheckpointTurn {
			return &c, nil
		}
	}
	return nil, nil
}
