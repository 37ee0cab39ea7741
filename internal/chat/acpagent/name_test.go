package acpagent_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/store/memory"
)

// turns runs turns and returns the calls and messages that the client received.
func (s *served) turns(id acp.SessionId, prompts ...string) (calls, ended []acp.ToolCallId, messages []message) {
	s.Helper()
	for _, p := range prompts {
		if stop, err := s.prompt(id, acp.TextBlock(p)); err != nil || stop != acp.StopReasonEndTurn {
			s.Fatalf("%q ends with %q, %v", p, stop, err)
		}
		c, e, m := s.client.take()
		calls, ended, messages = append(calls, c...), append(ended, e...), append(messages, m...)
	}
	return calls, ended, messages
}

func (s *served) load(id acp.SessionId) {
	s.Helper()
	if _, err := s.LoadSession(s.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		s.Fatal(err)
	}
}

// TestIDsAreUnique uses a model that numbers its calls from one on every line. The client
// distinguishes undone calls from later ones, even in forks. A replay has the same ids.
func TestIDsAreUnique(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	s.client.setChoice(chosen("allow"))
	id := s.open()
	undone, undoneEnds, undoneMessages := s.turns(id, "write x: 1")
	s.turns(id, "/undo")
	calls, ended, messages := s.turns(id, "write y: 1", "say hi\nrun echo hi")
	fork, err := s.UnstableForkSession(t.Context(), acp.UnstableForkSessionRequest{SessionId: id, Cwd: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	forked, forkedEnds, forkedMessages := s.turns(fork.SessionId, "write z: 1")
	s.turns(id, "write z: 2")
	all := slices.Concat(undone, calls, forked)
	if slices.Sort(all); len(all) != 4 || len(slices.Compact(slices.Clone(all))) != 4 {
		t.Errorf("the calls are %q", all)
	}
	if got := slices.Concat(undoneEnds, ended, forkedEnds); !slices.Equal(got, slices.Concat(undone, calls, forked)) {
		t.Errorf("the calls %q, %q, %q end as %q", undone, calls, forked, got)
	}
	if asked := <-s.client.asked; asked.ToolCall.ToolCallId != calls[1] {
		t.Errorf("the permission request is for %s, not for %s", asked.ToolCall.ToolCallId, calls[1])
	}
	var ids []string
	for _, m := range slices.Concat(undoneMessages, messages, forkedMessages) {
		ids = append(ids, m.id)
	}
	if slices.Sort(ids); len(ids) != 5 || len(slices.Compact(ids)) != 5 {
		t.Errorf("the messages are %q", ids)
	}
	s.load(fork.SessionId)
	again, againEnds, againMessages := s.client.take()
	if want := slices.Concat(calls, forked); !slices.Equal(again, want) || !slices.Equal(againEnds, want) {
		t.Errorf("replayed, the calls are %q, their ends %q, want %q", again, againEnds, want)
	}
	if want := slices.Concat(messages, forkedMessages); !slices.Equal(againMessages, want) {
		t.Errorf("replayed, the messages are %q, want %q", againMessages, want)
	}
}

// TestForkAtMessage checks that a fork begins at the end of the message's turn, which may have
// been undone.
func TestForkAtMessage(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	id := s.open()
	_, _, first := s.turns(id, "remember the port is 1")
	_, _, second := s.turns(id, "remember the port is 2")
	s.turns(id, "remember the port is 3", "/undo 2", "remember the port is 4")
	fork := func(at string, from acp.SessionId) (acp.SessionId, error) {
		r, err := s.UnstableForkSession(t.Context(), acp.UnstableForkSessionRequest{SessionId: from, Cwd: s.dir,
			Meta: map[string]any{"jetbrains": map[string]any{"air": map[string]any{"fork": map[string]any{"version": 1, "messageId": at}}}}})
		return r.SessionId, err
	}
	for want, from := range map[string][]message{"the port is 1": first, "the port is 2": second} {
		made, err := fork(from[len(from)-1].id, id)
		if err != nil {
			t.Fatal(err)
		}
		again, err := fork(first[0].id, made) // a fork of the fork, at a message from before it began
		if err != nil {
			t.Fatal(err)
		}
		if _, _, got := s.turns(made, "recall the port"); len(got) != 1 || got[0].text != want {
			t.Errorf("the fork answers %q, want %q", got, want)
		}
		if _, _, got := s.turns(again, "recall the port"); len(got) != 1 || got[0].text != "the port is 1" {
			t.Errorf("the fork of the fork answers %q", got)
		}
	}
	var e *acp.RequestError
	if _, err := fork("00000000-0000-8000-8000-000001000000", id); !errors.As(err, &e) || e.Code != -32602 {
		t.Errorf("a fork at an unknown message: %v", err)
	}
}
