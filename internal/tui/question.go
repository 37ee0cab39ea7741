package tui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// question is the call that a person is asked about.
type question struct {
	about  segno.Interrupt
	of     int    // how many wait, with it
	told   string // the id of the question that was printed last
	rows   int    // of it
	ready  bool   // its keys are taken
	timed  bool   // they will be
	edited string // the id of the question that new arguments were sent for
	wrong  error  // what was said to them
	kind   segno.DecisionKind
	area   textarea.Model // for what the answer needs
}

// choices are the answers and their keys, in order.
var choices = [...]struct {
	kind       segno.DecisionKind
	key, label string
	lost       string // the label for a call whose result was lost
}{
	{segno.Approve, "a", "[a]pprove", "make it [a]gain"},
	{segno.Edit, "e", "[e]dit the arguments", ""},
	{segno.Reject, "r", "[r]eject", "[r] leave it unknown"},
	{segno.Respond, "s", "[s]ay what came of it", "[s]ay what came of it"},
}

// ask asks about the first call that waits. All that is asked about is printed above,
// where it can be scrolled to however long it is.
func (m *model) ask() {
	m.state = asking
	q := &m.question
	q.about, q.of, q.ready, q.timed = m.standing.Interrupts[0], len(m.standing.Interrupts), false, false
	if q.told == q.about.ID {
		return
	}
	q.told = q.about.ID
	before := len(m.lines)
	m.say("", q.head())
	if q.about.Question != "" {
		m.say("  ", q.about.Question)
	}
	m.lines = append(m.lines, arguments(q.about.Args, m.width)...)
	q.rows = len(m.lines) - before
}

// pause is how long a question stands there before it takes keys: what is pressed
// sooner was meant for something else.
const pause = 500 * time.Millisecond

// readied says that the question with this id has stood there for long enough.
type readied string

// arm lets the question take keys after a while, once all of it is printed.
func (m *model) arm() tea.Cmd {
	q := &m.question
	if m.state != asking || q.timed || m.printing || len(m.lines) > 0 {
		return nil
	}
	q.timed = true
	id := readied(q.about.ID)
	return m.after(pause, func() tea.Msg { return id })
}

// choose takes a key of the question.
func (m *model) choose(name string) tea.Cmd {
	if name == "esc" || name == "l" {
		m.state, m.notice, m.question.told = idle, "it waits; enter asks again", ""
		m.back()
		return nil
	}
	if name == "ctrl+d" {
		m.quitting = true
		return nil
	}
	for _, c := range choices {
		if c.key != name || !slices.Contains(m.question.about.Allowed, c.kind) {
			continue
		}
		if c.kind == segno.Approve {
			return m.decide(segno.Decision{Kind: segno.Approve})
		}
		m.question.kind, m.state = c.kind, editing
		m.question.area.Reset()
		if c.kind == segno.Edit {
			m.question.area.SetValue(editable(m.question.about.Args))
			m.question.area.MoveToBegin()
		}
		return nil
	}
	return nil
}

// write takes a key of the answer's text area.
func (m *model) write(name string, k tea.KeyPressMsg) tea.Cmd {
	switch name {
	case "esc":
		m.state = asking
		return nil
	case "ctrl+j", "alt+enter", "shift+enter":
		m.question.area.InsertString("\n")
		return nil
	case "enter":
		return m.answer(m.question.area.Value())
	}
	return m.enter(k)
}

func (m *model) answer(text string) tea.Cmd {
	d := segno.Decision{Kind: m.question.kind, Text: text}
	switch {
	case d.Kind == segno.Edit:
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			m.notice = "not JSON: " + err.Error()
			return nil
		}
		d.Args, d.Text = json.RawMessage(text), ""
	case d.Kind == segno.Respond && strings.TrimSpace(text) == "":
		m.notice = "say what the agent shall be told"
		return nil
	}
	return m.decide(d)
}

// refuse says what is wrong with new arguments. As long as the question waits, what was
// typed stays to be changed.
func (m *model) refuse() {
	q := &m.question
	wrong := q.wrong
	q.wrong = nil
	switch {
	case wrong == nil:
	case m.state == asking && q.about.ID == q.edited:
		m.state, m.notice = editing, "not taken: "+cause(wrong).Error()
	default:
		m.complain(wrong)
	}
}

// cause is the error within an error.
func cause(err error) error {
	var e *segno.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// decide answers, and lets the run go on.
func (m *model) decide(d segno.Decision) tea.Cmd {
	d.Interrupt = m.question.about.ID
	cmd := m.run(agent.Input{Decide: []segno.Decision{d}})
	if d.Kind == segno.Edit {
		m.question.edited = d.Interrupt
	}
	return cmd
}

// head says what is asked.
func (q *question) head() string {
	text := fmt.Sprintf("%s wants leave", q.about.Tool)
	if q.about.Reason == segno.ReasonUnknown {
		text = fmt.Sprintf("%s was begun and its result was lost", q.about.Tool)
	}
	if q.of > 1 {
		text += fmt.Sprintf(" (1 of %d)", q.of)
	}
	return text
}

// answers says what can be answered.
func (q *question) answers() string {
	var all []string
	for _, c := range choices {
		switch {
		case !slices.Contains(q.about.Allowed, c.kind):
		case q.about.Reason == segno.ReasonUnknown:
			all = append(all, c.lost)
		default:
			all = append(all, c.label)
		}
	}
	return strings.Join(append(all, "[l]ater"), "  ")
}
