package hook

import "testing"

// TestATaskThatTheAgentStops lets an agent start a command in the background and stop it in the same turn. What the user does after that
// is not the turn's.
func TestATaskThatTheAgentStops(t *testing.T) {
	for tool, field := range map[string]string{"TaskStop": "task_id", "KillShell": "shell_id"} {
		t.Run(tool, func(t *testing.T) {
			c := newScene(t, map[string]string{"a": "0", "yours": "0"})
			c.asks("p1", "one")
			input := map[string]any{"command": "make serve", "run_in_background": true}
			c.begins("p1", "t1", "Bash", input)
			c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Bash", "tool_use_id", "t1", "tool_input", input,
				"tool_response", map[string]any{"backgroundTaskId": "b1"})
			c.waitForClock()
			c.write("a", "by the task")
			c.waitForClock()
			stop := map[string]any{field: "b1"}
			c.begins("p1", "t2", tool, stop)
			c.ends("p1", "t2", tool, stop)
			c.waitForClock()
			c.write("yours", "1")
			c.write("new", "1")
			c.waitForClock()
			c.stops("p1")
			c.wantConflicts(c.undo(1))
			c.wantFiles("a=0 new=1 yours=1")
		})
	}
}
