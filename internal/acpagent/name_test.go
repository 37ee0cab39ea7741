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

// talk makes turns and tells what the client heard in each.
func (s *served) talk(id acp.SessionId, prompts ...string) (calls, ended []acp.ToolCallId, spoken []message) {
	s.Helper()
	for _, p := range prompts {
		if stop, err := s.say(id, acp.TextBlock(p)); err != nil || stop != acp.StopReasonEndTurn {
			s.Fatalf("%q ends with %q, %v", p, stop, err)
		}
		c, e, m := s.client.took()
		calls, ended, spoken = append(calls, c...), append(ended, e...), append(spoken, m...)
	}
	return calls, ended, spoken
}

func (s *served) load(id acp.SessionId) {
	s.Helper()
	if _, err := s.LoadSession(s.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		s.Fatal(err)
	}
}

// TestCallsAndMessagesHaveIDsOfTheirOwn in a model that counts from one on every line: a
// client distinguishes undone calls from those after them, in forks too, and what is
// replayed is known by the same ids.
func TestCallsAndMessagesHaveIDsOfTheirOwn(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	s.client.answers(chosen("allow"))
	id := s.open()
	undone, undoneEnds, undoneSpoken := s.talk(id, "write x: 1")
	s.talk(id, "/undo")
	calls, ended, spoken := s.talk(id, "write y: 1", "say hi\nrun echo hi")
	fork, err := s.UnstableForkSession(t.Context(), acp.UnstableForkSessionRequest{SessionId: id, Cwd: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	forked, forkedEnds, forkedSpoken := s.talk(fork.SessionId, "write z: 1")
	s.talk(id, "write z: 2")
	all := slices.Concat(undone, calls, forked)
	if slices.Sort(all); len(all) != 4 || len(slices.Compact(slices.Clone(all))) != 4 {
		t.Errorf("the calls are %q", all)
	}
	if got := slices.Concat(undoneEnds, ended, forkedEnds); !slices.Equal(got, slices.Concat(undone, calls, forked)) {
		t.Errorf("the calls %q, %q, %q end as %q", undone, calls, forked, got)
	}
	if asked := <-s.client.asked; asked.ToolCall.ToolCallId != calls[1] {
		t.Errorf("leave is asked for %s, not for %s", asked.ToolCall.ToolCallId, calls[1])
	}
	var ids []string
	for _, m := range slices.Concat(undoneSpoken, spoken, forkedSpoken) {
		ids = append(ids, m.id)
	}
	if slices.Sort(ids); len(ids) != 5 || len(slices.Compact(ids)) != 5 {
		t.Errorf("the messages are %q", ids)
	}
	s.load(fork.SessionId)
	again, againEnds, againSpoken := s.client.took()
	if want := slices.Concat(calls, forked); !slices.Equal(again, want) || !slices.Equal(againEnds, want) {
		t.Errorf("replayed, the calls are %q, their ends %q, want %q", again, againEnds, want)
	}
	if want := slices.Concat(spoken, forkedSpoken); !slices.Equal(againSpoken, want) {
		t.Errorf("replayed, the messages are %q, want %q", againSpoken, want)
	}
}

// TestForkAtAMessage begins at the end of its turn, whether that is on the line or was
// undone.
func TestForkAtAMessage(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	id := s.open()
	_, _, first := s.talk(id, "remember the port is 1")
	_, _, second := s.talk(id, "remember the port is 2")
	s.talk(id, "remember the port is 3", "/undo 2", "remember the port is 4")
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
		again, err := fork(first[0].id, made) // of a fork, before it began
		if err != nil {
			t.Fatal(err)
		}
		if _, _, said := s.talk(made, "recall the port"); len(said) != 1 || said[0].text != want {
			t.Errorf("it says %q, want %q", said, want)
		}
		if _, _, said := s.talk(again, "recall the port"); len(said) != 1 || said[0].text != "the port is 1" {
			t.Errorf("a fork of the fork says %q", said)
		}
	}
	var e *acp.RequestError
	if _, err := fork("00000000-0000-8000-8000-000001000000", id); !errors.As(err, &e) || e.Code != -32602 {
		t.Errorf("a message that nobody sent: %v", err)
	}
}
