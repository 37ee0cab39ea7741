// Package event models one event of an agent that runs hooks: its payload, its turn, and the
// entries that segno records for it at a tool call.
//
// An agent waits for a hook at every tool call, so this package needs only the spool and the
// standard library. Package internal/hook does the work that needs the store.
package event

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// maxPayload is the size of the largest event. Claude Code sends a tool's whole
// output, which its own limits keep far below.
const maxPayload = 64 << 20

// Payload is a hook event as Claude Code 2.1.x, Codex 0.125 to 0.169, Gemini CLI 0.61 and segno's
// plugin for OpenCode write it to a hook's standard input. Missing fields are zero. Unknown fields
// are ignored.
type Payload struct {
	Event      string          `json:"hook_event_name"` // Claude Code's name
	Session    segno.SessionID `json:"session_id"`
	Transcript string          `json:"transcript_path"`
	Cwd        string          `json:"cwd"`
	PromptID   string          `json:"prompt_id"` // for Codex, the id of the turn
	Prompt     string          `json:"prompt"`
	Source     string          `json:"source"` // SessionStart: startup, resume, clear, compact
	Reason     string          `json:"reason"` // SessionEnd

	ToolCall
	AgentID   string `json:"agent_id"` // id of the subagent
	AgentType string `json:"agent_type"`

	LastMessage string `json:"last_assistant_message"`
	// Tasks are the background tasks that run when a turn or a subagent stops. It is nil if the
	// agent does not list them.
	Tasks []struct {
		ID          string `json:"id"`
		Type        string `json:"type"`
		Status      string `json:"status"`
		Description string `json:"description"`
	} `json:"background_tasks"`
	WorktreePath string `json:"worktree_path"`
	Trigger      string `json:"trigger"`
	Nonce        string `json:"segno_nonce"` // set in an event [Probe]
	TurnID       string `json:"turn_id"`     // see PromptID
	// Timestamp and Response are fields of Gemini CLI; see PromptID and LastMessage.
	Timestamp string `json:"timestamp"`
	Response  string `json:"prompt_response"`

	Raw []byte `json:"-"` // the event as it was read
}

// ToolCall has the fields of an event about a tool call.
type ToolCall struct {
	ToolName     string          `json:"tool_name"`
	ToolUseID    string          `json:"tool_use_id"`
	ToolInput    json.RawMessage `json:"tool_input"`
	ToolResponse json.RawMessage `json:"tool_response"`
	Error        json.RawMessage `json:"error"`
	ErrorDetails json.RawMessage `json:"error_details"`
	Interrupt    bool            `json:"is_interrupt"`
	DurationMS   *float64        `json:"duration_ms"`
}

// Probe is the name of an event that no agent sends: segno uses it to test its own hooks.
const Probe = "SegnoProbe"

// IsToolEvent reports whether the agent sent the event before or after a tool call. segno records
// such an event only in the spool.
func (p Payload) IsToolEvent() bool {
	return p.Event == "PreToolUse" || p.Event == "PostToolUse" || p.Event == "PostToolUseFailure"
}

// AnswerProbe proves to the sender of the event [Probe] that the event arrived here.
func (p Payload) AnswerProbe(w io.Writer) error {
	if err := segno.CheckID("probe", p.Nonce); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "{\"suppressOutput\":true,\"segno\":%q}\n", segno.DerivedID("probe", p.Nonce))
	return err
}

// Read reads one event of an agent with these hooks. It returns io.EOF for an empty input: an agent that ends
// while it starts a hook writes nothing to it.
func Read(r io.Reader, hooks *profile.Hooks) (Payload, error) {
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
	p.fillIn(hooks)
	return p, nil
}

// fillIn sets the fields for which an agent uses other names. If an agent has no prompt ids, the time of a prompt is
// its id. A prompt after an interruption therefore begins another turn.
func (p *Payload) fillIn(hooks *profile.Hooks) {
	p.Event = hooks.NameOf(p.Event)
	if hooks.TimeIsPromptID && p.Timestamp != "" && p.Event == "UserPromptSubmit" {
		p.PromptID = segno.DerivedID("prompt", string(p.Session), p.Timestamp)
	}
	p.PromptID, p.LastMessage = cmp.Or(p.PromptID, p.TurnID), cmp.Or(p.LastMessage, p.Response)
}

// Check returns an error if no agent would use the session id. The id becomes a file name and a
// command argument, so it must not look like an option or a hidden file. Check also refuses ids and
// paths that are longer than any real one.
func (p Payload) Check() error {
	for name, s := range map[string]string{"prompt_id": p.PromptID, "cwd": p.Cwd, "transcript_path": p.Transcript, "worktree_path": p.WorktreePath} {
		if len(s) > maxPath || name == "prompt_id" && len(s) > maxName {
			return segno.Errorf(segno.KindInvalid, "read hook event", "", "its %s is %d bytes long", name, len(s))
		}
	}
	if strings.HasPrefix(string(p.Session), "-") || strings.HasPrefix(string(p.Session), ".") {
		return segno.Errorf(segno.KindInvalid, "read hook event", "", "the session id begins with %q", p.Session[:1])
	}
	const allowed = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if len(p.Session) > maxSession || strings.Trim(string(p.Session), allowed) != "" {
		return segno.Errorf(segno.KindInvalid, "read hook event", "", "the session id contains invalid characters")
	}
	return nil
}

// The maximum lengths of a session id, and of a name or another id of an agent.
const (
	maxSession = 128
	maxName    = 256
)

// bounded shortens a name to at most maxName bytes. It replaces the rest of a longer name with a
// hash of the whole name, so that different names stay different.
func bounded(name string) string {
	if len(name) <= maxName {
		return name
	}
	const head = 160
	return strings.ToValidUTF8(name[:head], "") + "… " + segno.HashOf([]byte(name)).String()
}

// result is the part of a tool call's result that an entry keeps.
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
	r.Exit = cmp.Or(exitIn(p.ToolResponse, "exitCode"), exitIn(p.ToolResponse, "exit_code"))
	if r.Exit == nil && p.ToolName == "Bash" && p.TurnID == "" { // Codex, which has ids of turns, does not report the status
		r.Exit = bashExit(p)
	}
	return r
}

// exitIn returns the integer that a response, which is a part of a decoded event, has under a key, or nil. It searches
// the bytes, because a response can be large and the agent waits.
func exitIn(response json.RawMessage, key string) *int {
	n, err := strconv.Atoi(string(jsonscan.FindInValid(response, jsonscan.Span{To: len(response)}, key).Of(response)))
	if err != nil {
		return nil
	}
	return &n
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

// TaskReport returns the task and the summary of a prompt that the agent wrote itself because a
// task in the background stopped. The task of a subagent is its agent id. The task is "" for a
// prompt that a user wrote.
func (p Payload) TaskReport() (task, summary string) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(p.Prompt), "<task-notification>")
	if !ok {
		return "", ""
	}
	task = element(rest, "task-id")
	return task, cmp.Or(element(rest, "summary"), "task "+task+" reported")
}

// element returns the text of the first element with a name.
func element(text, name string) string {
	_, after, _ := strings.Cut(text, "<"+name+">")
	inside, _, found := strings.Cut(after, "</"+name+">")
	if !found {
		return ""
	}
	return strings.TrimSpace(inside)
}
