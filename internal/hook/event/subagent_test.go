package event

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
)

// TestOfParent reads the events of a subagent in the forms of older and newer versions of Codex, and transcripts that
// name no parent.
func TestOfParent(t *testing.T) {
	dir := t.TempDir()
	rollout := func(name, line string) string {
		file := filepath.Join(dir, name+".jsonl")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first := func(source string) string {
		return `{"type":"session_meta","payload":{"id":"child","base_instructions":"` + strings.Repeat("x", 30<<10) + `","source":` + source + `}}` + "\n"
	}
	child := rollout("child", first(`{"subagent":{"thread_spawn":{"parent_thread_id":"parent","depth":1}}}`))
	fifo := filepath.Join(dir, "fifo.jsonl")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, transcript, agentID, want string
	}{
		{"old", child, "", "parent child "},
		{"new", child, "child", "own child "},
		{"user", rollout("user", first(`"exec"`)), "", "own  turn"},
		{"review", rollout("review", first(`{"subagent":"review"}`)), "", "own  turn"},
		{"hostile parent", rollout("hostile", first(`{"subagent":{"thread_spawn":{"parent_thread_id":"../x"}}}`)), "", "own  turn"},
		{"no newline", rollout("torn", strings.TrimSpace(first(`{"subagent":{"thread_spawn":{"parent_thread_id":"parent"}}}`))), "", "own  turn"},
		{"no JSON", rollout("text", "text\n"), "", "own  turn"},
		{"endless", rollout("endless", strings.Repeat("x", 2<<20)), "", "own  turn"},
		{"FIFO", fifo, "", "own  turn"},
		{"missing", filepath.Join(dir, "none.jsonl"), "", "own  turn"},
		{"other agent", filepath.Join(dir, "child"), "", "own  turn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Payload{Session: "own", PromptID: "turn", Transcript: c.transcript, AgentID: c.agentID}
			if c.name == "old" {
				p.Session = "child"
			}
			got := p.OfParent()
			if s := strings.Join([]string{string(got.Session), got.AgentID, got.PromptID}, " "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
	if got := (Payload{Transcript: child}).OfParent(); got.Session != segno.SessionID("") {
		t.Errorf("an event without a session became one of %q", got.Session)
	}
}
