package hook

import (
	"path/filepath"
	"testing"
)

// TestAMessageThatOutlivesItsTurn leaves a message in the agent's queue until the turn is over. The
// message begins the next turn without an event, and later changes belong to that turn.
func TestAMessageThatOutlivesItsTurn(t *testing.T) {
	for _, end := range []string{"stop", "esc", "taken back"} {
		t.Run(end, func(t *testing.T) {
			c := newScene(t, map[string]string{"a": "0", "b": "0"})
			c.asks("p1", "one")
			c.writes("p1", "t1", "a", "1")
			c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", "and then")
			c.agent(`"type":"queue-operation","operation":"enqueue","content":"and then"`)
			c.stops("p1")
			if n := len(c.open()); n != 1 {
				t.Errorf("%d turns are open, though a message is queued", n)
			}
			if end == "taken back" {
				c.agent(`"type":"queue-operation","operation":"remove","content":"and then"`)
				c.asks("p3", "two")
				c.stops("p3")
				c.wantHistory("base, 1 one, 2 two")
				c.wantConflicts(c.undo(2))
				c.wantFiles("a=0 b=0")
				c.wantNoFailures()
				return
			}
			c.agent(`"type":"queue-operation","operation":"dequeue"`)
			c.agent(`"type":"user","promptId":"p2","permissionMode":"default","promptSource":"queued","message":{"role":"user","content":"and then"}`)
			c.writes("p2", "t2", "b", "2")
			if end == "stop" {
				c.stops("p2")
				c.wantOpen()
				c.wantHistory("base, 1 one, 2 and then")
			} else {
				c.waitForClock()
				c.interrupt("p2")
				c.waitForClock()
				c.write("mine", "1")
			}
			c.wantConflicts(c.undo(1))
			want := "a=1 b=0"
			if end == "esc" {
				want += " mine=1"
			}
			c.wantFiles(want)
			c.wantNoFailures()
		})
	}
}

// TestALateEventBeforeAQueuedMessage reports the end of a tool call after the end of its turn. A message then begins a turn
// under the same id, because the user typed it while the hooks for that end ran. The changes of the new turn are its own.
func TestALateEventBeforeAQueuedMessage(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.ends("p1", "t1", "Write", map[string]any{"file_path": filepath.Join(c.project, "a"), "content": "1"})
	c.waitForClock()
	c.asks("p1", "two")
	c.writes("p1", "t2", "b", "2")
	c.stops("p1")
	c.wantHistory("base, 1 one, 2 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 b=0")
	c.wantNoFailures()
}
