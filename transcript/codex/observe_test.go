package codex_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestMadeNoCalls asks about turns with and without calls, about one whose end is not recorded, and about one beside a command that an
// earlier turn left running.
func TestMadeNoCalls(t *testing.T) {
	home := t.TempDir()
	s := newSession(t, home, firstID, nil)
	end := func(key string) { s.event("task_complete", map[string]any{"turn_id": key}) }
	s.turn("calls", "run")
	s.prompt("answer", "ask")
	s.message("assistant", "an answer")
	end("answer")
	s.prompt("failed", "ask")
	end("failed")
	s.prompt("leaves", "start")
	s.add("response_item", map[string]any{"type": "function_call", "name": "exec_command", "call_id": "call_1", "arguments": "{}"})
	s.add("response_item", map[string]any{"type": "function_call_output", "call_id": "call_1", "output": "Process running with session ID 7\nOutput:\n"})
	end("leaves")
	s.flush()
	none := func(key segno.TurnKey, message string) bool {
		t.Helper()
		got, err := codex.New(home, codex.Options{}).MadeNoCalls(t.Context(), segno.Source{Session: firstID}, key, message, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if none("answer", "an answer") {
		t.Error("the turn ran beside a command")
	}
	s.event("item_completed", map[string]any{"item": map[string]any{"type": "CommandExecution", "process_id": "7"}})
	s.prompt("open", "ask")
	s.message("assistant", "so far")
	s.flush()
	for _, c := range []struct {
		key     segno.TurnKey
		message string
		want    bool
	}{{"calls", "answer to run", false}, {"answer", "", true}, {"failed", "", true}, {"leaves", "", false}, {"open", "so far", true},
		{"open", "", false}, {"open", "the last message", false}, {"unknown", "", false}, {"", "", false}} {
		if got := none(c.key, c.message); got != c.want {
			t.Errorf("MadeNoCalls(%q, %q) is %v", c.key, c.message, got)
		}
	}
}

// TestAPlanIsTheLastMessage asks about a turn of Codex's plan mode: at its end, Codex reports the last message without the plan.
func TestAPlanIsTheLastMessage(t *testing.T) {
	const plan = "<proposed_plan>\n# Plan\n- do it\n</proposed_plan>"
	for _, tc := range []struct {
		message, reported string
		want              bool
	}{
		{plan, "", true}, {"This is it:\n\n" + plan + "\n\nShall I?", "This is it:\n\nShall I?", true}, {plan, "another", false},
		{"So far.", "", false}, {"I write <proposed_plan> next.", "", false},
	} {
		home := t.TempDir()
		s := newSession(t, home, firstID, nil)
		s.prompt("plan", "ask")
		s.message("assistant", tc.message)
		s.flush()
		c, src := codex.New(home, codex.Options{}), segno.Source{Session: firstID}
		if none, err := c.MadeNoCalls(t.Context(), src, "plan", tc.reported, nil); err != nil || none != tc.want {
			t.Errorf("%q: MadeNoCalls is %v, %v", tc.message, none, err)
		}
		want := tc.reported
		if tc.want {
			want = tc.message
		}
		if got, err := c.LastMessage(t.Context(), src, "plan", tc.reported); err != nil || got != want {
			t.Errorf("LastMessage is %q, %v, want %q", got, err, want)
		}
	}
}

// TestMadeNoCallsSince asks about the turns since a time, as the proxy does.
func TestMadeNoCallsSince(t *testing.T) {
	for name, tc := range map[string]struct {
		record func(s *session)
		want   bool
	}{
		"an answer": {func(s *session) {
			s.prompt("new", "ask")
			s.message("assistant", "an answer")
			s.event("task_complete", map[string]any{"turn_id": "new"})
		}, true},
		"a call":             {func(s *session) { s.turn("new", "run") }, false},
		"no end":             {func(s *session) { s.prompt("new", "ask"); s.message("assistant", "an answer") }, false},
		"not in the session": {func(s *session) {}, false},
		"a call, then a turn": {func(s *session) {
			s.turn("new", "run")
			s.prompt("two", "ask")
			s.event("task_complete", map[string]any{"turn_id": "two"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			s := newSession(t, home, firstID, nil)
			s.turn("old", "run")
			since := began.Add(time.Duration(len(s.lines)) * time.Millisecond) // the time of the next line
			tc.record(s)
			s.flush()
			got, err := codex.New(home, codex.Options{}).MadeNoCallsSince(t.Context(), segno.Source{Session: firstID}, since)
			if err != nil || got != tc.want {
				t.Errorf("MadeNoCallsSince is %v, %v", got, err)
			}
		})
	}
}
