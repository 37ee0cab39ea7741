package hook

import (
	"fmt"
	"testing"
)

// acceptsPlan lets the agent make a plan in the other session. The user accepts it and chooses to clear the context: Claude Code ends that
// session, writes the prompt of this one itself, and calls no hook for it. prompt is the id in the events of this session: 2.1.197 continues
// that of the other session, and 2.1.332 sends none.
func (c *scene) acceptsPlan(prompt string) {
	c.Helper()
	c.sendEventOfOther("UserPromptSubmit", "prompt_id", "p0", "prompt", "make a plan")
	c.sendEventOfOther("PreToolUse", "prompt_id", "p0", "tool_name", "ExitPlanMode", "tool_use_id", "t0", "tool_input", map[string]any{"plan": "do it"})
	c.sendEventOfOther("SessionEnd", "prompt_id", "p0", "reason", "clear")
	c.wantOpen()
	c.sendEvent("SessionStart", "prompt_id", prompt, "source", "clear")
	c.agent(fmt.Sprintf(`"type":"user","promptId":%q,"origin":{"kind":"auto-continuation"},"planContent":"do it","message":{"role":"user","content":"Implement the following plan"}`, prompt))
}

// TestAPlanInAnEmptyContext lets the agent carry out a plan. The turn begins with its first call.
func TestAPlanInAnEmptyContext(t *testing.T) {
	for name, prompt := range map[string]string{"no id": "", "the id of an earlier session": "p0"} {
		for _, end := range []string{"stop", "esc", "killed", "continued"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				c := newScene(t, map[string]string{"a": "0", "b": "0", "yours": "0"})
				c.acceptsPlan(prompt)
				c.write("yours", "1")
				c.writes(prompt, "t1", "a", "1")
				c.wantUndoRefused("is open")
				c.write("mine", "1")
				c.waitForClock()
				c.runs(prompt, "t2", "make b", func() { c.write("b", "1") })
				switch end {
				case "stop":
					c.stops(prompt)
					c.wantOpen()
				case "esc":
					c.waitForClock()
					c.interrupt(prompt)
				case "killed":
					c.waitForClock()
					c.killAgent()
				case "continued": // by a hook of the user for the end of a turn
					c.stops(prompt)
					c.writes(prompt, "t3", "late", "1")
					c.wantUndoRefused("is open")
					c.stops(prompt)
					c.wantConflicts(c.undo(1))
				}
				c.waitForClock()
				c.write("late", "2")
				c.wantConflicts(c.undo(1))
				c.wantFiles("a=0 b=0 late=2 mine=1 yours=1")
				c.wantNoFailures()
			})
		}
	}
}

// TestAPlanWithoutCalls lets the agent answer a plan without a call. What the user changed meanwhile is not the turn's.
func TestAPlanWithoutCalls(t *testing.T) {
	for _, prompt := range []string{"", "p0"} {
		c := newScene(t, map[string]string{"a": "0"})
		c.acceptsPlan(prompt)
		c.write("yours", "1")
		c.stops(prompt)
		c.wantOpen()
		c.wantHistory("base, 1 Implement the following plan")
		c.wantConflicts(c.undo(1))
		c.wantFiles("a=0 yours=1")
		c.wantNoFailures()
	}
}

// TestAMessageDuringTheStopHooks types a message while the hooks for the end of a turn run. segno's hook has read the agent's queue before.
// The message begins a turn without an event, and what the user changed before the first call is not the turn's.
func TestAMessageDuringTheStopHooks(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "yours": "0"})
	c.asks("p1", "one")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", "two")
	c.stops("p1") // the queue is not in the session yet
	c.agent(`"type":"queue-operation","operation":"enqueue","content":"two"`)
	c.agent(`"type":"queue-operation","operation":"dequeue"`)
	c.agent(`"type":"user","promptId":"p2","permissionMode":"default","promptSource":"queued","message":{"role":"user","content":"two"}`)
	c.write("yours", "1")
	c.waitForClock()
	c.writes("p2", "t1", "a", "1")
	c.wantUndoRefused("is open")
	c.runs("p2", "t2", "make b", func() { c.write("b", "1") })
	c.stops("p2")
	c.wantOpen()
	c.wantHistory("base, 1 one, external, 2 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=0 yours=1")
	c.wantNoFailures()
}
