package hook

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sendGemini sends an event as Gemini CLI 0.61 does: its calls have no ids.
func (c *scene) sendGemini(name string, more map[string]any) {
	c.Helper()
	event := map[string]any{"hook_event_name": name, "session_id": "33333333-0000-4000-8000-000000000003", "cwd": c.project,
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}
	c.runHook("gemini", event, more)
}

// runHook runs the hook of an agent with an event and more of its members.
func (c *scene) runHook(agent string, event, more map[string]any) {
	c.Helper()
	maps.Copy(event, more)
	data, err := json.Marshal(event)
	if err != nil {
		c.Fatal(err)
	}
	Run(c.Context(), agent, Event{Place: c.place, Stdin: bytes.NewReader(data), Stdout: new(bytes.Buffer), Getenv: func(string) string { return "" }})
}

// geminiCalls sends the events of a call of Gemini CLI, and calls act between them, as the tool would work.
func (c *scene) geminiCalls(tool string, input map[string]any, response string, act func()) {
	c.Helper()
	call := map[string]any{"tool_name": tool, "tool_input": input}
	c.sendGemini("BeforeTool", call)
	c.waitForClock()
	act()
	c.waitForClock()
	call["tool_response"] = json.RawMessage(response)
	c.sendGemini("AfterTool", call)
	c.waitForClock()
}

// TestGeminiCallsEnd checks that what a user does after a call of Gemini CLI is not the turn's, although the turn still runs.
func TestGeminiCallsEnd(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "e": "0", "yours": "0"})
	file := func(name string) string { return filepath.Join(c.project, name) }
	c.sendGemini("BeforeAgent", map[string]any{"prompt": "one"})
	c.geminiCalls("run_shell_command", map[string]any{"command": "make"}, `{"llmContent":"ok"}`, func() { c.write("a", "1") })
	c.geminiCalls("write_file", map[string]any{"file_path": file("b"), "content": "1"}, `{"llmContent":"ok"}`, func() { c.write("b", "1") })
	c.geminiCalls("replace", map[string]any{"file_path": file("e"), "old_string": "x", "new_string": "y"},
		`{"llmContent":"none found","error":{"message":"none found","type":"edit_no_occurrence_found"}}`, func() {})
	c.write("yours", "1")
	c.write("new", "1")
	c.write("e", "1")
	c.waitForClock()
	c.sendGemini("AfterAgent", map[string]any{"prompt_response": "done"})
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=0 e=1 new=1 yours=1")
}

// TestGeminiCallsAtOnce runs two commands at the same time, as Gemini CLI does. Their results do not show which of the two ended.
func TestGeminiCallsAtOnce(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "yours": "0"})
	c.sendGemini("BeforeAgent", map[string]any{"prompt": "one"})
	c.sendGemini("BeforeTool", map[string]any{"tool_name": "run_shell_command", "tool_input": map[string]any{"command": "make"}})
	c.geminiCalls("run_shell_command", map[string]any{"command": "make quick"}, `{"llmContent":"ok"}`, func() { c.write("a", "1") })
	c.write("b", "1")
	c.waitForClock()
	c.sendGemini("AfterTool", map[string]any{"tool_name": "run_shell_command", "tool_input": map[string]any{"command": "make"}, "tool_response": map[string]any{}})
	c.waitForClock()
	c.write("yours", "1")
	c.waitForClock()
	c.geminiCalls("run_shell_command", map[string]any{"command": "make server", "is_background": true}, `{"llmContent":"ok"}`, func() {})
	c.write("log", "by the server")
	c.waitForClock()
	c.sendGemini("AfterAgent", map[string]any{"prompt_response": "done"})
	if got := c.undo(1); len(got) > 0 {
		t.Errorf("conflicts: %s", strings.Join(got, " "))
	}
	c.wantFiles("a=0 b=0 yours=1")
}

// TestGeminiEndsLongAfterAnInterruption interrupts a turn of Gemini CLI where it asks for permission, which no event shows. What the
// user does until the session ends is not reverted.
func TestGeminiEndsLongAfterAnInterruption(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "yours": "0"})
	c.sendGemini("BeforeAgent", map[string]any{"prompt": "one"})
	c.geminiCalls("run_shell_command", map[string]any{"command": "make"}, `{"llmContent":"ok"}`, func() { c.write("a", "1") })
	c.sendGemini("BeforeTool", map[string]any{"tool_name": "run_shell_command", "tool_input": map[string]any{"command": "make deploy"}})
	c.waitForClock()
	c.write("yours", "1")
	c.write("new", "1")
	c.waitForClock()
	c.sendGemini("SessionEnd", map[string]any{"reason": "exit"})
	c.wantConflicts(c.undo(1), "new", "yours")
	c.wantFiles("a=0 new=1 yours=1")
}

// TestCommandsInADirectory runs commands in a directory below the root: that of the session, one that a call names, and one to which a
// command changes. The commands name files relative to the directory, and the user changes these files before the turn ends.
func TestCommandsInADirectory(t *testing.T) {
	for how, call := range map[string]struct {
		dir   string // of the session
		input map[string]any
	}{
		"session": {"sub", map[string]any{"command": "sed -i s/1/2/ a; rm gone"}},
		"call":    {"", map[string]any{"command": "sed -i s/1/2/ a; rm gone", "dir_path": "sub"}},
		"cd":      {"", map[string]any{"command": "cd sub && sed -i s/1/2/ a && rm gone"}},
	} {
		t.Run(how, func(t *testing.T) {
			c := newScene(t, map[string]string{"sub/a": "1", "sub/gone": "1"})
			const other = "44444444-0000-4000-8000-000000000004" // its directory is the root
			c.sendGemini("BeforeAgent", map[string]any{"prompt": "one", "session_id": other})
			c.sendGemini("AfterAgent", map[string]any{"prompt_response": "done", "session_id": other})
			cwd := filepath.Join(c.project, call.dir)
			c.waitForClock()
			c.sendGemini("BeforeAgent", map[string]any{"prompt": "two", "cwd": cwd})
			run := map[string]any{"tool_name": "run_shell_command", "tool_input": call.input, "cwd": cwd}
			c.sendGemini("BeforeTool", run)
			c.waitForClock()
			c.write("sub/a", "2")
			c.remove("sub/gone")
			c.waitForClock()
			run["tool_response"] = map[string]any{"llmContent": "ok"}
			c.sendGemini("AfterTool", run)
			c.waitForClock()
			c.write("sub/a", "2, and mine")
			c.write("sub/new", "1")
			c.waitForClock()
			c.sendGemini("AfterAgent", map[string]any{"prompt_response": "done", "cwd": cwd})
			c.wantConflicts(c.undoOf("33333333-0000-4000-8000-000000000003"), "sub/a")
			c.wantFiles("sub/a=2, and mine sub/gone=1 sub/new=1")
		})
	}
}
