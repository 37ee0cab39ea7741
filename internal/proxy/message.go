package proxy

import (
	"context"
	"encoding/json"
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

// ending is what the proxy notes of a turn's end.
type ending struct {
	Message  string          `json:"message,omitempty"`  // the agent's id of its last message
	Messages []string        `json:"messages,omitempty"` // of all, oldest first
	Stop     string          `json:"stop,omitempty"`
	Usage    json.RawMessage `json:"usage,omitempty"`
	Context  json.RawMessage `json:"context,omitempty"` // the last usage_update
	Error    json.RawMessage `json:"error,omitempty"`
}

// endingOf reads what was noted of a turn's end.
func endingOf(entries []segno.Entry) (e ending) {
	for _, x := range entries {
		if x.Kind == segno.EntryNote && x.Name == "end" {
			_ = json.Unmarshal(x.Body, &e) // one that was clipped names no message
		}
	}
	return e
}

// messageOf returns the agent's id of a turn's last message, "" if it gave none.
func (s *session) messageOf(ctx context.Context, turn *segno.Checkpoint) (string, error) {
	line, err := s.proxy.store.Load(ctx, turn.ID, segno.Window{Last: 1, Entries: true})
	if err != nil || len(line.Commits) == 0 {
		return "", err
	}
	return endingOf(line.Commits[0].Entries).Message, nil
}

// turnOfMessage returns the turn of the thread's line in which the agent sent a
// message.
func (s *session) turnOfMessage(ctx context.Context, message string) (*segno.Checkpoint, error) {
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return nil, err
	}
	line, err := s.proxy.store.Load(ctx, head.Tip, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if e := endingOf(n.Entries); n.Checkpoint != nil && (e.Message == message || slices.Contains(e.Messages, message)) {
			return n.Checkpoint, nil
		}
	}
	return nil, &segno.Error{Op: "fork", Name: message, Kind: segno.KindNotFound, Hint: "give a checkpoint of 'segno log', or the id of a message of the agent's"}
}
