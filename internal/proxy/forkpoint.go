package proxy

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// forkPoints are the agents that can fork at a message, and the versions since which they
// can. Older versions ignore the message and fork at the head, without an error: the npm
// packages of the versions before do not contain the field.
var forkPoints = [...]struct{ agent, since string }{
	{"claude-agent-acp", "0.75.0"},
	{"codex-acp", "1.8.0"},
	{segnoAgent, "0"},
}

func supportsForkPoint(id identity) bool {
	for _, p := range forkPoints {
		if strings.Contains(id.Name, p.agent) {
			return slices.Compare(versionNumbers(id.Version), versionNumbers(p.since)) >= 0
		}
	}
	return false
}

// versionNumbers are the numbers of a version, without the part after "-".
func versionNumbers(version string) []int {
	var out []int
	version, _, _ = strings.Cut(version, "-")
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // 0 if it is not a number
		out = append(out, n)
	}
	return out
}

// forkAt has the agent fork the session of a turn at the end of that turn. It returns
// errUnsupported if the agent cannot, refuses, or forked somewhere else.
func (s *session) forkAt(ctx context.Context, proc *process, turn *segno.Checkpoint) (segno.SessionID, error) {
	if turn.Session == nil || turn.Session.Agent != s.record.Agent || s.unusable[turn.Session.Session] {
		return "", errUnsupported
	}
	newest, err := find(s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Session: turn.Session.Session}), func(c *segno.Checkpoint) bool {
		return c.Kind == segno.CheckpointTurn
	})
	if err != nil {
		return "", err
	}
	point := map[string]any{}
	atHead := !s.replaced[turn.Session.Session] && newest != nil && newest.ID == turn.ID
	if !atHead {
		message, err := s.lastMessageOf(ctx, turn)
		if err != nil {
			return "", err
		}
		if message == "" || !supportsForkPoint(s.proxy.agent.identity()) {
			return "", errUnsupported
		}
		fork := map[string]any{"fork": map[string]any{"version": 1, "messageId": message}}
		point["_meta"] = map[string]any{"jetbrains": map[string]any{"air": fork}}
	}
	m, err := s.proxy.agent.call(ctx, proc, "session/fork", s.params(turn.Session.Session, point), nil)
	if isAnswer(err) {
		s.logf("the agent does not fork: %v", err)
		return "", errUnsupported
	}
	if err != nil {
		return "", err
	}
	up := segno.SessionID(m.SessionID())
	if up == "" {
		return "", errUnsupported
	}
	s.loaded(proc, m)
	if !atHead {
		err = s.verifyFork(ctx, proc, up, turn)
	}
	return up, err
}

// verifyFork has the agent replay a fork that it made. It returns errUnsupported if the
// fork's last prompt is not the turn's.
func (s *session) verifyFork(ctx context.Context, proc *process, up segno.SessionID, turn *segno.Checkpoint) error {
	if !s.proxy.agent.identity().Load {
		return nil
	}
	reader := &replayReader{promptsOnly: true}
	s.proxy.announce(s, up, nil)
	_, err := s.callOpen(ctx, proc, "session/load", up, reader)
	switch {
	case isAnswer(err):
		s.logf("the agent does not load its fork: %v", err)
		return errUnsupported
	case err == nil && !reader.endsWith(turn.Prompt):
		s.logf("the agent's fork does not end at turn t%d", turn.Turn)
		return errUnsupported
	}
	return err
}

// lastMessageOf returns the id of the agent's last message in a turn; "" if it has none, or
// if a tool call came after it, which a fork there would lack. Forks of segno's agent have
// the whole turn.
func (s *session) lastMessageOf(ctx context.Context, turn *segno.Checkpoint) (string, error) {
	commits, err := s.entriesOf(ctx, turn)
	if err != nil || len(commits) == 0 {
		return "", err
	}
	end := endNoteOf(commits[0].Entries)
	if len(end.Messages) == 0 || end.Behind && !s.proxy.agent.identity().isSegno() {
		return "", nil
	}
	return end.Messages[len(end.Messages)-1], nil
}

// turnOfMessage returns the turn of the thread's line in which the agent sent a message.
func (l *ledger) turnOfMessage(ctx context.Context, message string) (*segno.Checkpoint, error) {
	head, err := l.proxy.store.Head(ctx, l.thread)
	if err != nil {
		return nil, err
	}
	line, err := l.proxy.store.Load(ctx, head.Tip, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil && slices.Contains(endNoteOf(n.Entries).Messages, message) {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "fork", message, nil).
		WithHint("give a checkpoint of 'segno log', or the id of a message of the agent")
}
