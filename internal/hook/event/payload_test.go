package event

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agents/gemini"
	"github.com/dalsegno/segno/agents/profile"
)

func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":{"exitCode":3},"duration_ms":1.5}`))
	f.Add([]byte(`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","error":"Exit code 7\nno"}`))
	f.Add([]byte(`{"hook_event_name":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data), new(profile.Hooks))
		if err != nil {
			return
		}
		if _, err := json.Marshal(p.result()); err != nil {
			t.Error("a result that was read cannot be written:", err)
		}
	})
}

func TestExitStatus(t *testing.T) {
	for payload, want := range map[string]int{
		`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":{"stdout":"x"}}`:              0,
		`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","error":"Exit code 7\nno such thing"}`: 7,
		`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":{"exit_code":2}}`:             2,
		`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","error":"interrupted"}`:                -1,
		`{"hook_event_name":"PostToolUse","tool_name":"Read","tool_response":"text"}`:                      -1,
		`{"hook_event_name":"PostToolUse","turn_id":"t","tool_name":"Bash","tool_response":""}`:            -1, // Codex, after a command that failed
	} {
		p, err := Read(strings.NewReader(payload), new(profile.Hooks))
		if err != nil {
			t.Fatal(err)
		}
		got := -1
		if exit := p.result().Exit; exit != nil {
			got = *exit
		}
		if got != want {
			t.Errorf("%s: exit %d, want %d", payload, got, want)
		}
	}
}

// TestGeminiEvents reads events as Gemini CLI 0.61.0 wrote them. Two prompts of a session have
// different ids, and the events between them have none.
func TestGeminiEvents(t *testing.T) {
	const common = `{"session_id":"bf8d1258-ea77-418e-b0b3-d86d8cd20fb9","transcript_path":"/h/.gemini/tmp/p/chats/session-1.jsonl","cwd":"/p",`
	read := func(rest string) Payload {
		t.Helper()
		p, err := Read(strings.NewReader(common+rest), gemini.Profile().Hooks)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := read(`"hook_event_name":"BeforeAgent","timestamp":"2026-11-23T01:44:49.303Z","prompt":"please do it"}`)
	second := read(`"hook_event_name":"BeforeAgent","timestamp":"2026-11-23T01:44:52.139Z","prompt":"again please"}`)
	if first.Event != "UserPromptSubmit" || first.Prompt != "please do it" || first.PromptID == "" || first.PromptID == second.PromptID {
		t.Errorf("prompts are %+v and %+v", first, second)
	}
	end := read(`"hook_event_name":"AfterAgent","timestamp":"2026-11-23T01:44:49.892Z","prompt":"please do it","prompt_response":"done","stop_hook_active":false}`)
	if end.Event != "Stop" || end.LastMessage != "done" || end.PromptID != "" {
		t.Errorf("the end is %+v", end)
	}
	tool := read(`"hook_event_name":"AfterTool","timestamp":"2026-11-23T01:44:49.502Z","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"llmContent":"x"}}`)
	if tool.Event != "PostToolUse" || !tool.IsToolEvent() || tool.ToolName != "run_shell_command" || tool.PromptID != "" {
		t.Errorf("the tool call is %+v", tool)
	}
}

// Two prompts without timestamps would have the same id, and the second would continue the turn of the first.
func TestAPromptWithoutATimeHasNoID(t *testing.T) {
	hooks := &profile.Hooks{TimeIsPromptID: true}
	for event, want := range map[string]bool{
		`{"hook_event_name":"UserPromptSubmit","session_id":"s","timestamp":"2026-01-02T03:04:05Z"}`: true,
		`{"hook_event_name":"UserPromptSubmit","session_id":"s"}`:                                    false,
	} {
		if p, err := Read(strings.NewReader(event), hooks); err != nil || (p.PromptID != "") != want {
			t.Errorf("%s has the prompt id %q, %v", event, p.PromptID, err)
		}
	}
}
