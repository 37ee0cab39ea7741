// Package failure classifies the answers of an Agent Client Protocol agent to a failed request: it
// determines the state of the turn and of the session.
//
// The protocol has four errors for this and no rule for when to use them. So each agent reports
// the same failure in its own way, and one agent ends a failed turn with end_turn. A table has a
// row for each known answer: the common ones are here, and those of one agent are in its directory below
// agents/. A test runs each row against frames that agents sent.
//
// The table is cautious, because a prompt that the caller sends twice may do its work twice.
// Only a row can declare that a prompt did not start, and the updates of the turn overrule the
// row.
package failure

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// Outcome is the end of a request to an agent, and a summary of the messages that the agent sent
// before.
type Outcome struct {
	Agent, Version string // agentInfo's name and version; "" if the agent has none
	Method         string
	Err            *acp.Error // nil if there was a result
	Exited         bool       // the agent's process ended without an answer

	// Fields of a prompt's result:
	Stop         string // stopReason
	OutputTokens int    // of usage; -1 if the result has none
	// Category and Title are from _meta.jetbrains.air.sessionFailure. If the client announced
	// support for that field, an agent uses it instead of an error.
	Category, Title string

	// The turn, up to the answer:
	Text        string // of the agent; only its end, if it is long
	Tools       int    // tool calls
	Updates     int    // updates of any kind
	SystemError bool   // the last _meta.codex.threadStatus.type was systemError
	Fresh       bool   // the session was created, resumed or loaded since the previous turn
}

// Meaning is the meaning of an outcome for the caller. The zero Meaning is success.
type Meaning struct {
	Name    string // the stable name of the failure; "" for success
	Session Session
	Turn    Turn
	Message string // one lower-case line for people
}

// BusySession is the name of the failure that another program has the session open.
const BusySession = "busy session"

// Session is the state of the session after an outcome.
type Session uint8

const (
	// Kept: the session accepts the next prompt.
	Kept Session = iota
	// Lost: the agent no longer has the session under this id. The caller must resume, load or
	// rebuild it.
	Lost
	// Dead: the agent's process is gone or useless, and all its sessions with it.
	// The caller must restart the process before the next request.
	Dead
)

func (s Session) String() string { return [...]string{"kept", "lost", "dead"}[s] }

// Turn is the state of the turn that a prompt began. For other requests it is
// [Failed] if the user must see the error and a retry does not help, else [Fine].
type Turn uint8

const (
	// Fine: the turn ended normally.
	Fine Turn = iota
	// NotStarted: the agent did not accept the prompt. The caller may send it again.
	NotStarted
	// Seen: the turn may have had effects. The caller may ask the agent to continue, but must
	// never send the prompt again.
	Seen
	// Failed: the turn ended with an error that the user must see. The caller must not send
	// anything.
	Failed
)

func (t Turn) String() string { return [...]string{"fine", "not started", "seen", "failed"}[t] }

// Classify returns the meaning of the first row of the table that matches an outcome.
func Classify(o Outcome) Meaning {
	row := find(o)
	if row == nil {
		return Meaning{}
	}
	m := row.meaning()
	switch {
	case m.Turn != NotStarted && m.Turn != Seen:
	case o.Method != "session/prompt":
		m.Turn = Fine
	case m.Turn == NotStarted && o.hasStarted(row):
		m.Turn = Seen
	}
	return m
}

// hasStarted reports whether the turn shows that the agent accepted the prompt. A row for any
// agent is less reliable: any update overrules it.
func (o *Outcome) hasStarted(row *row) bool {
	return o.Tools > 0 || o.reply() != "" || row.agent == "" && o.Updates > 0
}

// reply returns the text of the model in lower case. It omits the paragraphs that an adapter
// adds.
func (o *Outcome) reply() string {
	paragraphs := strings.Split(strings.ToLower(o.Text), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.TrimSpace(p)
	}
	return strings.Join(slices.DeleteFunc(paragraphs, func(p string) bool {
		return p == "" || hasAnyPrefix(p, "warning: ", "config warning: ", "**notice:** ", "*context compacted")
	}), "\n\n")
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

// row is a failure of an agent, or a common one if the name of the agent is "".
type row struct {
	profile.Failure
	agent string
}

func (r *row) meaning() Meaning { return meanings[r.Problem] }

// find returns the first row that matches o, nil if none does.
func find(o Outcome) *row {
	texts := []string{o.reply(), clip(o.Title)}
	if o.Err != nil {
		texts = errorTexts(o.Err)
	}
	rows := table()
	for i := range rows {
		if rows[i].matches(&o, texts) {
			return &rows[i]
		}
	}
	return nil
}

func (r *row) matches(o *Outcome, texts []string) bool {
	return strings.Contains(strings.ToLower(o.Agent), r.agent) && o.canShow(r.By) && allows(r.Methods, o.Method) &&
		(r.Code == 0 || r.Code == o.Err.Code) && (r.Key == "" || r.matchesData(o.Err.Data)) && r.matchesResult(o) &&
		(r.Text == nil || slices.ContainsFunc(texts, r.matchesText))
}

// canShow reports whether an outcome can be evidence of a kind.
func (o *Outcome) canShow(by profile.Evidence) bool {
	switch {
	case o.Exited:
		return by == profile.ByExit
	case o.Err != nil:
		return by <= profile.ByError
	}
	return isResult(by) && o.Method == "session/prompt" && (o.SystemError || by != profile.BySystemError)
}

func isResult(by profile.Evidence) bool { return by > profile.ByError && by < profile.ByExit }

func (r *row) matchesResult(o *Outcome) bool {
	return allows(r.Stop, o.Stop) && allows(r.Category, o.Category) &&
		(!r.Silent || o.reply() == "" && o.Tools == 0) && (!r.Idle || o.Fresh && o.Updates == 0 && o.OutputTokens == 0)
}

// allows reports whether list has s, or is nil.
func allows(list []string, s string) bool { return list == nil || slices.Contains(list, s) }

// matchesData reports whether data is an object with the row's key and value. It compares the
// JSON of a value that is not a string.
func (r *row) matchesData(data json.RawMessage) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return false
	}
	raw, has := object[r.Key]
	value := string(raw)
	_ = json.Unmarshal(raw, &value)
	return has && string(raw) != "null" && allows(r.Values, value)
}

func (r *row) matchesText(text string) bool {
	return slices.ContainsFunc(r.Text, func(want string) bool {
		if start, isAnchored := strings.CutPrefix(want, "^"); isAnchored {
			return strings.HasPrefix(text, start)
		}
		return strings.Contains(text, want)
	})
}

// Some agents append their log to an error. These limits bound the part that is searched.
const (
	maxTexts = 64
	maxText  = 16 << 10
)

// errorTexts returns the strings of an error in lower case: its message, and the strings at any
// depth of its data.
func errorTexts(e *acp.Error) []string {
	texts := []string{clip(e.Message)}
	var data any
	if json.Unmarshal(e.Data, &data) != nil {
		return texts
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if len(texts) < maxTexts {
				texts = append(texts, clip(v))
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(data)
	return texts
}

func clip(s string) string { return strings.ToLower(s[:min(len(s), maxText)]) }
