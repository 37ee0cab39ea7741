package acptest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Step is one step of a script. Exactly one of its kinds is set. In JSON, a string is a
// step with that Text.
type Step struct {
	Text    string `json:"text,omitempty"`    // the agent sends it as a message
	Thought string `json:"thought,omitempty"` // the agent sends it as a thought

	// Tool is a tool call. "ledger", the only tool, appends Line to the ledger, once and
	// durably, and returns "appended Line". If Child is set, a separate process does that.
	// If Ask is set, the agent first asks for permission, and a refused call returns
	// "refused Line". If Hold is set, the announced call waits until that file exists. File
	// is a file in the session's directory to which the tool also appends the line, unless
	// the file contains it. The call names File if no child writes it.
	Tool  string `json:"tool,omitempty"`
	Line  string `json:"line,omitempty"`
	File  string `json:"file,omitempty"`
	Child bool   `json:"child,omitempty"`
	Ask   bool   `json:"ask,omitempty"`
	Hold  string `json:"hold,omitempty"`
	// Strike makes the tool call a fault. The process ends, in the way of How, when the
	// call is announced ("intent"), when its line is in the ledger ("effect"), when the
	// session has the result ("recorded") or when the client has it ("result").
	Strike string `json:"strike,omitempty"`

	// Exit ends the process with a code; Kill does it with SIGKILL.
	Exit *int `json:"exit,omitempty"`
	Kill bool `json:"kill,omitempty"`
	// Drop closes stdout in the middle of a message; the process continues to run.
	Drop bool `json:"drop,omitempty"`
	// Error is the prompt's answer. Fail names a row of [Failures], which has the answer
	// and the messages before it.
	Error json.RawMessage `json:"error,omitempty"`
	Fail  string          `json:"fail,omitempty"`
	// Empty ends the turn without a message.
	Empty bool `json:"empty,omitempty"`
	// Evict makes the process forget the session; Forget also deletes its file. The turn
	// continues to its answer.
	Evict  bool `json:"evict,omitempty"`
	Forget bool `json:"forget,omitempty"`
	// Hang does nothing until the turn is cancelled. Deaf does nothing even then.
	Hang bool `json:"hang,omitempty"`
	Deaf bool `json:"deaf,omitempty"`
	// How is the way in which a Strike ends the process: "kill" (the default), "exit",
	// "drop", or "child". With "child", the tool's process is killed, the turn fails with
	// the row claude.gone of [Failures], and the session is evicted.
	How string `json:"how,omitempty"`
	// Times is how often a fault happens, over all processes; 0 means always.
	Times int `json:"times,omitempty"`

	Wait  string `json:"wait,omitempty"`  // until this file exists
	Pause int    `json:"pause,omitempty"` // milliseconds
	// End ends the turn with a stop reason. Usage is the answer's usage, unchanged.
	End   string          `json:"end,omitempty"`
	Usage json.RawMessage `json:"usage,omitempty"`

	Flood   int             `json:"flood,omitempty"`   // sends this many thoughts of a kilobyte
	Raw     json.RawMessage `json:"raw,omitempty"`     // an update, unchanged
	Junk    string          `json:"junk,omitempty"`    // a line on stdout
	Request json.RawMessage `json:"request,omitempty"` // {"method":…,"params":…} to the client; then sends its answer
	Echo    bool            `json:"echo,omitempty"`    // sends the prompt's params in an update's _meta
}

// Do returns a step that appends a line to the ledger.
func Do(line string) Step { return Step{Tool: "ledger", Line: line} }

// Say returns a step that sends a message.
func Say(text string) Step { return Step{Text: text} }

// Directive returns the text that scripts a turn.
func Directive(steps ...Step) string { return "<<acp " + string(encode(steps)) + ">>" }

// UnmarshalJSON accepts a string or an object. An unknown field is an error.
func (s *Step) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &s.Text)
	}
	type plain Step
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	return dec.Decode((*plain)(s))
}

// fault reports whether the step is a fault, for which Times counts.
func (s Step) fault() bool {
	return s.Strike != "" || s.Exit != nil || s.Kill || s.Drop || s.Error != nil || s.Fail != "" || s.Empty ||
		s.Evict || s.Forget || s.Hang || s.Deaf
}

// script is a parsed directive.
type script struct {
	steps []Step
	key   string // of the steps' text
}

const opening = "<<acp "

// directives returns the scripts of a text in order, and the text without them. It also finds
// scripts in quoted JSON. It ignores a truncated script.
func directives(text string) (found []script, rest string, err error) {
	var out strings.Builder
	for {
		i := strings.Index(text, opening)
		if i < 0 {
			out.WriteString(text)
			return found, out.String(), nil
		}
		out.WriteString(text[:i])
		text = text[i+len(opening):]
		steps, n, err := readSteps(text)
		if err != nil {
			return nil, "", fmt.Errorf("acptest: directive %.60q: %w", text, err)
		}
		if text = text[n:]; steps != nil {
			sum := sha256.Sum256(encode(steps))
			found = append(found, script{steps, hex.EncodeToString(sum[:6])})
		}
	}
}

// readSteps parses the steps at the beginning of a text and the >> after them. n is their
// length.
func readSteps(text string) (steps []Step, n int, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	if err = dec.Decode(&steps); err == nil {
		if n = int(dec.InputOffset()); strings.HasPrefix(text[n:], ">>") {
			return steps, n + 2, nil
		}
		return nil, 0, errors.New("no >> behind the steps")
	}
	n, inner := len(text), text
	end := strings.Index(text, "]>>")
	if end >= 0 {
		n, inner = end+3, text[:end+1]
	}
	var plain string
	if json.Unmarshal([]byte(`"`+inner+`"`), &plain) == nil && json.Unmarshal([]byte(plain), &steps) == nil {
		return steps, n, nil
	}
	if end < 0 || strings.Contains(inner, "…") {
		return nil, n, nil
	}
	return nil, 0, err
}
