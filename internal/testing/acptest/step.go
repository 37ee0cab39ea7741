package acptest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Step is one step of a script. Exactly one of its kinds is set. In JSON a string
// is a step that says it.
type Step struct {
	Text    string `json:"text,omitempty"`    // the agent says it
	Thought string `json:"thought,omitempty"` // the agent thinks it

	// Tool is a tool call. "ledger", the only tool, appends Line to the ledger, once
	// and durably, and returns "appended Line". With Child a separate process does that.
	// With Ask the agent first asks for permission, and a refused call returns "refused
	// Line". With Hold the announced call waits until that file exists. File is a file in
	// the session's directory to which the tool also appends the line, unless the file
	// contains it. The call names File if no child writes it.
	Tool  string `json:"tool,omitempty"`
	Line  string `json:"line,omitempty"`
	File  string `json:"file,omitempty"`
	Child bool   `json:"child,omitempty"`
	Ask   bool   `json:"ask,omitempty"`
	Hold  string `json:"hold,omitempty"`
	// Strike makes a fault of the tool call: the process ends, as How says, when the
	// call is announced ("intent"), when its line is in the ledger ("effect"), when
	// the session has the result ("recorded") or when the client has ("result").
	Strike string `json:"strike,omitempty"`

	// Exit ends the process with a code; Kill does it with SIGKILL.
	Exit *int `json:"exit,omitempty"`
	Kill bool `json:"kill,omitempty"`
	// Drop closes stdout in the middle of a message and stays.
	Drop bool `json:"drop,omitempty"`
	// Error is the prompt's answer. Fail is the answer, and what comes before it, of a
	// row of [Failures].
	Error json.RawMessage `json:"error,omitempty"`
	Fail  string          `json:"fail,omitempty"`
	// Empty ends the turn with nothing said.
	Empty bool `json:"empty,omitempty"`
	// Evict makes the process forget the session, Forget deletes it as well. The turn
	// goes on to its answer.
	Evict  bool `json:"evict,omitempty"`
	Forget bool `json:"forget,omitempty"`
	// Hang does nothing until the turn is cancelled. Deaf does nothing even then.
	Hang bool `json:"hang,omitempty"`
	Deaf bool `json:"deaf,omitempty"`
	// How a Strike ends the process: "kill" (the default), "exit", "drop", or "child":
	// the tool's process is killed, the turn fails as [Failures] claude.gone has it
	// and the session is evicted.
	How string `json:"how,omitempty"`
	// Times is how often a fault strikes, over all processes; 0 is always.
	Times int `json:"times,omitempty"`

	Wait  string `json:"wait,omitempty"`  // until a file is there
	Pause int    `json:"pause,omitempty"` // milliseconds
	// End ends the turn with a stop reason; Usage is the answer's usage, as it is.
	End   string          `json:"end,omitempty"`
	Usage json.RawMessage `json:"usage,omitempty"`

	Flood   int             `json:"flood,omitempty"`   // so many thoughts of a kilobyte
	Raw     json.RawMessage `json:"raw,omitempty"`     // any update
	Junk    string          `json:"junk,omitempty"`    // a line on stdout
	Request json.RawMessage `json:"request,omitempty"` // {"method":…,"params":…} to the client; the agent says its answer
	Echo    bool            `json:"echo,omitempty"`    // the prompt's params, in an update's _meta
}

// Do is a step that appends a line to the ledger.
func Do(line string) Step { return Step{Tool: "ledger", Line: line} }

// Say is a step that says something.
func Say(text string) Step { return Step{Text: text} }

// Directive is the text that scripts a turn.
func Directive(steps ...Step) string { return "<<acp " + string(encode(steps)) + ">>" }

// UnmarshalJSON takes a string as well as an object; a field it does not know is an
// error.
func (s *Step) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &s.Text)
	}
	type plain Step
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	return dec.Decode((*plain)(s))
}

// fault reports whether the step is one that strikes so many times.
func (s Step) fault() bool {
	return s.Strike != "" || s.Exit != nil || s.Kill || s.Drop || s.Error != nil || s.Fail != "" || s.Empty ||
		s.Evict || s.Forget || s.Hang || s.Deaf
}

// script is a directive that was found.
type script struct {
	steps []Step
	key   string // of the steps' text
}

const opening = "<<acp "

// directives returns the scripts of a text in order, and the text without them. It also finds
// scripts in quoted JSON. A truncated script is ignored.
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

// readSteps reads the steps a text begins with and the >> behind them, and returns
// how long they are.
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
