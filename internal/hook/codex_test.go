package hook

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const codexSession = "44444444-0000-4000-8000-000000000004"

// rollout is the session file of Codex in a scene.
type rollout struct {
	*scene
	path string
	key  string // the running turn
	// agent is the id of the subagent, or "".
	agent string
}

// startCodex begins a session of Codex.
func (c *scene) startCodex() *rollout {
	c.Helper()
	home := filepath.Join(c.place.UserHome, ".codex")
	c.place.Homes["codex"] = home
	r := &rollout{scene: c, path: filepath.Join(home, "sessions", "2026", "11", "28", "rollout-2026-11-28T00-00-00-"+codexSession+".jsonl")}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		c.Fatal(err)
	}
	r.add("session_meta", map[string]any{"id": codexSession, "cwd": c.project, "cli_version": "0.169.0"})
	return r
}

// add adds a line to the session.
func (r *rollout) add(typ string, payload map[string]any) {
	r.Helper()
	line, err := json.Marshal(map[string]any{"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "type": typ, "payload": payload})
	if err != nil {
		r.Fatal(err)
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s\n", line); err != nil {
		r.Fatal(err)
	}
}

// send sends an event as Codex does.
func (r *rollout) send(name string, more map[string]any) {
	r.Helper()
	event := map[string]any{"hook_event_name": name, "session_id": codexSession, "turn_id": r.key, "cwd": r.project, "transcript_path": r.path}
	if r.agent != "" {
		event["agent_id"] = r.agent
	}
	r.runHook("codex", event, more)
}

func (r *rollout) begin(key, prompt string) {
	r.Helper()
	r.key = key
	r.add("event_msg", map[string]any{"type": "task_started", "turn_id": key})
	r.add("event_msg", map[string]any{"type": "user_message", "message": prompt, "turn_id": key})
	r.send("UserPromptSubmit", map[string]any{"prompt": prompt})
}

// call sends the events of a call, and calls act between them, as the tool would work. Codex runs the hook after the call only if the call succeeds.
func (r *rollout) call(id, tool, input, output string, succeeds bool, act func()) {
	r.Helper()
	call := map[string]any{"tool_name": tool, "tool_use_id": id, "tool_input": map[string]any{"command": input}}
	r.send("PreToolUse", call)
	r.waitForClock()
	act()
	r.waitForClock()
	if succeeds {
		call["tool_response"] = output
		r.send("PostToolUse", call)
	}
	r.add("response_item", map[string]any{"type": "function_call_output", "call_id": id, "output": output})
	r.waitForClock()
}

// TestCallsOfCodexThatFail checks that a failed call of Codex, after which Codex runs no hook, ends with its result in the session:
// what the user does later in the turn is the user's.
func TestCallsOfCodexThatFail(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "m": "0", "yours": "0"})
	r := c.startCodex()
	patch := func(name string) string {
		return "*** Begin Patch\n*** Update File: " + name + "\n@@\n-7\n+8\n*** End Patch"
	}
	const failure = "apply_patch verification failed: Failed to find expected lines"
	r.begin("turn-1", "one")
	r.call("call_1", "Bash", "make", "Process exited with code 0\nOutput:\n", true, func() { c.write("a", "1") })
	r.call("call_2", "apply_patch", patch("b"), failure, false, func() {})
	r.call("call_3", "Bash", "apply_patch <<'EOF'\n"+patch("a")+"\nEOF\n", failure, false, func() {})
	r.call("call_4", "mcp__x__y", "go", "the tool failed", false, func() { c.write("m", "1") })
	c.write("b", "1")
	c.write("yours", "1")
	c.write("new", "1")
	c.waitForClock()
	r.send("Stop", map[string]any{"last_assistant_message": "done"})
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=1 m=0 new=1 yours=1")
}

// TestCommandOfCodexThatStillRuns runs a command of Codex that still runs after the end of its turn. An undo waits for its end, and then
// undoes its changes.
func TestCommandOfCodexThatStillRuns(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	r := c.startCodex()
	r.begin("turn-1", "one")
	r.call("call_1", "Bash", "make serve > b", "Wall time: 10 seconds\nProcess running with session ID 7\nOutput:\n", false, func() {})
	c.write("a", "1")
	c.waitForClock()
	r.send("Stop", map[string]any{"last_assistant_message": "done"})
	c.wantRefused()
	c.write("b", "1")
	c.waitForClock()
	r.add("event_msg", map[string]any{"type": "exec_command_end", "call_id": "call_1", "process_id": "7", "aggregated_output": "", "exit_code": 0})
	c.waitForClock()
	c.write("yours", "1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 yours=1")
}

// TestCallOfCodexThatTheUserInterrupted interrupts a command of a version of Codex that sends no event of it.
func TestCallOfCodexThatTheUserInterrupted(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "yours": "0"})
	r := c.startCodex()
	r.begin("turn-1", "one")
	r.call("call_1", "Bash", "make", "Wall time: 1.7 seconds\naborted by user", false, func() { c.write("a", "1") })
	r.add("event_msg", map[string]any{"type": "turn_aborted", "turn_id": "turn-1", "reason": "interrupted"})
	c.waitForClock()
	c.write("yours", "1")
	c.write("new", "1")
	c.waitForClock()
	r.begin("turn-2", "two")
	c.waitForClock()
	r.send("Stop", map[string]any{"last_assistant_message": "done"})
	c.wantConflicts(c.undo(2))
	c.wantFiles("a=0 new=1 yours=1")
}

// TestCallOfASubagentOfCodexThatFails has a subagent with a failed call. Codex writes the result into the session of the subagent.
func TestCallOfASubagentOfCodexThatFails(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "yours": "0"})
	r := c.startCodex()
	const child = "55555555-0000-4000-8000-000000000005"
	sub := &rollout{scene: c, path: strings.ReplaceAll(r.path, codexSession, child), key: "turn-sub", agent: child}
	r.begin("turn-1", "one")
	r.call("call_1", "Bash", "make", "Process exited with code 0\nOutput:\n", true, func() { c.write("a", "1") })
	sub.add("session_meta", map[string]any{"id": child, "cwd": c.project, "cli_version": "0.169.0",
		"source": map[string]any{"subagent": map[string]any{"thread_spawn": map[string]any{"parent_thread_id": codexSession, "depth": 1}}}})
	sub.begin("turn-sub", "sub")
	sub.call("call_2", "mcp__x__y", "go", "the tool failed", false, func() {})
	c.write("yours", "1")
	c.write("new", "1")
	c.waitForClock()
	sub.send("SubagentStop", map[string]any{"agent_type": "default"})
	r.send("Stop", map[string]any{"last_assistant_message": "done"})
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 new=1 yours=1")
}
