package hook

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestAToolThatOnlyReadsLeavesNoDoubt runs a turn of each agent with a tool that only reads, asks the user or starts a subagent, while
// the user writes the file. The change is the user's: undo of the turn keeps it and reports no conflict. A tool of an MCP server may have
// written the file, so the change is the turn's, and undo reverts it.
func TestAToolThatOnlyReadsLeavesNoDoubt(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for agent, tools := range map[string][]string{
		"claude": {"Read", "Grep", "Glob", "LS", "mcp__files__read"},
		"codex":  {"read_file", "grep_files", "list_dir", "view_image", "mcp__files__read"},
		"gemini": {"read_file", "grep_search", "glob", "list_directory", "get_internal_docs", "mcp_files_read",
			"exit_plan_mode", "invoke_agent", "complete_task", "tracker_update_task", "read_mcp_resource"},
		"opencode": {"read", "grep", "glob", "list", "skill", "plan_enter", "plan_exit", "files_read"},
	} {
		for _, tool := range tools {
			t.Run(agent+"/"+tool, func(t *testing.T) {
				c := newScene(t, map[string]string{"a": "0"})
				hooks := agentNamed(agent).Hooks
				send := func(name string, more ...any) {
					t.Helper()
					event := map[string]any{"session_id": session, "prompt_id": "p1", "cwd": c.project}
					if hooks.TimeIsPromptID {
						delete(event, "prompt_id")
					}
					for _, r := range hooks.Registrations {
						if hooks.NameOf(r.Event) == name {
							event["hook_event_name"] = r.Event
						}
					}
					for i := 0; i < len(more); i += 2 {
						event[more[i].(string)] = more[i+1]
					}
					data, err := json.Marshal(event)
					if err != nil {
						t.Fatal(err)
					}
					Run(t.Context(), agent, Event{Place: c.place, Stdin: bytes.NewReader(data), Stdout: new(bytes.Buffer), Getenv: func(string) string { return "" }})
				}
				input := map[string]any{"path": filepath.Join(c.project, "a")}
				call := []any{"tool_name", tool, "tool_use_id", "t1", "tool_input", input}
				send("UserPromptSubmit", "prompt", "look")
				c.waitForClock()
				send("PreToolUse", call...)
				c.waitForClock()
				c.write("a", "by the user")
				c.waitForClock()
				send("PostToolUse", append(call, "tool_response", "ok")...)
				c.waitForClock()
				send("Stop")
				c.wantConflicts(c.undoOf(segno.SessionID(session)))
				if strings.Contains(tool, "files_") {
					c.wantFiles("a=0")
				} else {
					c.wantFiles("a=by the user")
				}
			})
		}
	}
}
