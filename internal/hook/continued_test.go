package hook

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoWhileTheAgentContinuesAfterItsEnd lets a Stop hook of the user continue a turn that segno has recorded. From the next call on
// the agent works again, so that no file may move, and afterwards the turn has the changes of both parts.
func TestUndoWhileTheAgentContinuesAfterItsEnd(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.wantOpen()
	c.writes("p1", "t2", "b", "1")
	c.wantOpen("p1")
	c.wantUndoRefused("is open")
	c.stops("p1")
	c.wantOpen()
	c.wantHistory("base, 1 one")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=0")
	c.wantNoFailures()
}

// TestTheAgentIsKilledAfterItContinued kills the agent in the second part of a turn. The turn has the calls of that part, too.
func TestTheAgentIsKilledAfterItContinued(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "yours": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.writes("p1", "t2", "b", "1")
	c.write("yours", "1")
	c.killAgent()
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=0 yours=1")
	c.wantNoFailures()
}

// TestALateCallWithoutATurn sends a call of a prompt that segno did not see, as if the user had enabled the hooks during the turn. segno opens no turn.
func TestALateCallWithoutATurn(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.writes("p0", "t2", "a", "2")
	c.wantOpen()
	c.wantHistory("base, 1 one")
	c.wantNoFailures()
}

// TestTheAgentContinuesAfterAnUndo undoes a turn while a Stop hook of the user still runs. What the agent then does is a further turn.
func TestTheAgentContinuesAfterAnUndo(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "yours": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.wantConflicts(c.undo(1))
	c.write("yours", "1")
	input := map[string]any{"file_path": filepath.Join(c.project, "b"), "content": "1"}
	var told bytes.Buffer
	Run(c.Context(), "claude", Event{Place: c.place, Stdout: &told, Getenv: func(string) string { return "" },
		Stdin: strings.NewReader(c.payload("PreToolUse", "prompt_id", "p1", "tool_name", "Write", "tool_use_id", "t2", "tool_input", input))})
	if !strings.Contains(told.String(), "the user undid turn 1") || !strings.Contains(told.String(), `"PreToolUse"`) {
		t.Errorf("the answer to the agent is %q", &told)
	}
	c.write("b", "1")
	c.ends("p1", "t2", "Write", input)
	c.wantUndoRefused("is open")
	c.stops("p1")
	c.wantOpen()
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=0 yours=1")
	c.wantNoFailures()
}
