package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// stopIsKilled runs stop, and then restores the files of the open turns from before it. This is the
// state after the hook was killed between the commit of the turn and the removal of the turn's
// file.
func (c *scene) stopIsKilled(stop func()) {
	c.Helper()
	names, err := filepath.Glob(filepath.Join(c.place.Store, "turns", "*.jsonl"))
	if err != nil || len(names) == 0 {
		c.Fatalf("no turn is open: %v", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			c.Fatal(err)
		}
	}
	stop()
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			c.Fatal(err)
		}
	}
}

// TestUndoAfterAStopHookWasKilled kills the hook of a Stop event between the commit of the turn and
// the removal of the turn's file. The agent still runs, so no other event ends the turn. The user
// can still undo it.
func TestUndoAfterAStopHookWasKilled(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stopIsKilled(func() { c.stops("p1") })
	c.wantOpen("p1")
	c.wantHistory("base, 1 one")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantOpen()
	c.wantNoFailures()
}

// TestUndoWhileTheAgentContinuesAfterAKilledStopHook refuses to undo a turn that was recorded if
// the agent has called another tool since: a second Stop hook made it continue.
func TestUndoWhileTheAgentContinuesAfterAKilledStopHook(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stopIsKilled(func() { c.stops("p1") })
	c.waitForClock()
	c.writes("p1", "t2", "a", "2")
	c.wantUndoRefused("is open")
	c.wantFiles("a=2")
	c.wantNoFailures()
}

// TestUndoBesideATaskAfterAKilledStopHook refuses to undo a turn that was recorded while its
// background task runs.
func TestUndoBesideATaskAfterAKilledStopHook(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.begins("p1", "t2", "Agent", map[string]any{"prompt": "do it", "description": "bg"})
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Agent", "tool_use_id", "t2", "tool_response", map[string]any{"isAsync": true, "agentId": "a9"})
	c.writes("p1", "t1", "a", "1")
	c.stopIsKilled(func() { c.stops("p1", subagent()) })
	c.wantUndoRefused("background work")
	c.wantNoFailures()
}

func (c *scene) wantUndoRefused(why string) {
	c.Helper()
	_, err := c.moves(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), why) {
		c.Errorf("undo returns %v, want a refusal with %q", err, why)
	}
}
