package event

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dalsegno/segno"
)

// maxPayload bounds what is read of one event. Claude Code sends a tool's whole
// output, which its own limits keep far below.
const maxPayload = 64 << 20

// Payload is a Claude Code hook event, as versions 2.1.x write it to a hook's
// standard input. Fields that are not there are zero; others are ignored.
type Payload struct {
	Event      string          `json:"hook_event_name"`
	Session    segno.SessionID `json:"session_id"`
	Transcript string          `json:"transcript_path"`
	Cwd        string          `json:"cwd"`
	PromptID   string          `json:"prompt_id"`
	Prompt     string          `json:"prompt"`
	Source     string          `json:"source"` // SessionStart: startup, resume, clear, compact
	Reason     string          `json:"reason"` // SessionEnd

	ToolName     string          `json:"tool_name"`
	ToolUseID    string          `json:"tool_use_id"`
	ToolInput    json.RawMessage `json:"tool_input"`
	ToolResponse json.RawMessage `json:"tool_response"`
	Error        json.RawMessage `json:"error"`
	ErrorDetails json.RawMessage `json:"error_details"`
	Interrupt    bool            `json:"is_interrupt"`
	DurationMS   *float64        `json:"duration_ms"`
	AgentID      string          `json:"agent_id"`
	AgentType    string          `json:"agent_type"`

	LastMessage string `json:"last_assistant_message"`
	// Tasks is what works in the background when a turn or a subagent stops; nil if the
	// agent does not tell.
	Tasks []struct {
		ID          string `json:"id"`
		Type        string `json:"type"`
		Status      string `json:"status"`
		Description string `json:"description"`
	} `json:"background_tasks"`
	WorktreePath string `json:"worktree_path"`
	Trigger      string `json:"trigger"`
	Nonce        string `json:"segno_nonce"` // of our own probe, see [Payload.Answer]

	Raw []byte `json:"-"` // what was read
}

// Read reads one event. It returns io.EOF if there is none: an agent that ends
// while it starts a hook leaves it an empty input, which is nobody's fault.
func Read(r io.Reader) (Payload, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPayload+1))
	if err != nil {
		return Payload{}, fmt.Errorf("read hook event: %w", err)
	}
	if len(data) > maxPayload {
		return Payload{}, segno.Errorf(segno.KindInvalid, "read hook event", "", "larger than %d MiB", maxPayload>>20)
	}
	if len(data) == 0 {
		return Payload{}, io.EOF
	}
	p := Payload{Raw: data}
	if err := json.Unmarshal(data, &p); err != nil {
		return Payload{}, segno.NewError(segno.KindInvalid, "read hook event", "", err)
	}
	if p.Event == "" {
		return p, segno.Errorf(segno.KindInvalid, "read hook event", "", "it has no hook_event_name")
	}
	return p, nil
}

// Check returns an error if the session id cannot be an agent's. The id becomes a file
// name and a command argument, so it must not look like an option or a hidden file.
// Check also refuses ids and paths that are longer than any real one.
func (p Payload) Check() error {
	const most = 128
	for name, s := range map[string]string{"prompt_id": p.PromptID, "cwd": p.Cwd, "transcript_path": p.Transcript, "worktree_path": p.WorktreePath} {
		if len(s) > maxPath || name == "prompt_id" && len(s) > maxName {
			return segno.Errorf(segno.KindInvalid, "read hook event", "", "its %s is %d bytes long", name, len(s))
		}
	}
	if strings.HasPrefix(string(p.Session), "-") || strings.HasPrefix(string(p.Session), ".") {
		return segno.Errorf(segno.KindInvalid, "read hook event", "", "the session id begins with %q", p.Session[:1])
	}
	bad := func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_.-", c)
	}
	if len(p.Session) > most || strings.ContainsFunc(string(p.Session), bad) {
		return segno.Errorf(segno.KindInvalid, "read hook event", "", "the session id holds characters that no agent gives it")
	}
	return nil
}

// maxName bounds the names and ids that an agent gives.
const maxName = 256

// bounded returns a name of at most maxName bytes: of a longer one the beginning and a
// hash of the whole, so that two ids that differ stay different.
func bounded(name string) string {
	if len(name) <= maxName {
		return name
	}
	const head = 160
	return strings.ToValidUTF8(name[:head], "") + "… " + segno.HashOf([]byte(name)).String()
}

// result is what a result entry keeps of a tool call.
type result struct {
	Response   json.RawMessage `json:"response,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
	Exit       *int            `json:"exit,omitempty"`
	Interrupt  bool            `json:"interrupt,omitempty"`
	DurationMS *float64        `json:"duration_ms,omitempty"`
	Agent      string          `json:"agent,omitempty"`
}

func (p Payload) result() result {
	r := result{Response: segno.Clip(p.ToolResponse), Error: segno.Clip(p.Error), Interrupt: p.Interrupt,
		DurationMS: p.DurationMS, Agent: bounded(p.AgentID)}
	var said struct {
		Exit     *int `json:"exitCode"`
		ExitCode *int `json:"exit_code"`
	}
	if json.Unmarshal(p.ToolResponse, &said) == nil {
		if r.Exit = said.Exit; r.Exit == nil {
			r.Exit = said.ExitCode
		}
	}
	if r.Exit == nil && p.ToolName == "Bash" {
		r.Exit = bashExit(p)
	}
	return r
}

// bashExit reads the exit status of a shell call. Claude Code reports a status
// other than 0 as a failure whose text begins with "Exit code N".
func bashExit(p Payload) *int {
	if p.Event != "PostToolUseFailure" {
		return new(int)
	}
	var text string
	var n int
	if json.Unmarshal(p.Error, &text) != nil {
		return nil
	}
	if _, err := fmt.Sscanf(text, "Exit code %d", &n); err != nil {
		return nil
	}
	return &n
}
