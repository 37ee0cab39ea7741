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
	"github.com/dalsegno/segno/internal/chat"
)

// question is the call that a person is asked about.
type question struct {
	about  segno.Interrupt
	of     int    // how many wait, with it
	told   string // the id of the question that was printed last
	rows   int    // of it
	ready  bool   // its keys are taken
	timed  bool   // they will be
	picked string // the key of the choice that enter takes, "" if none
	sure   bool   // asks once more whether to send a reply in the tool's place
	edited string // the id of the question that new arguments were sent for
	wrong  error  // what was said to them
	kind   segno.DecisionKind
	area   textarea.Model // for what the answer needs
}

// choice is an answer and its keys.
type choice struct {
	kind  segno.DecisionKind // "" answers later
	keys  string             // the first is that of the label
	label string
	lost  string // the label for a call whose result was lost
}

// choices are the answers, in order. "n" rejects without a reason.
var choices = [...]choice{
	{segno.Approve, "ay", "[a]pprove", "make it [a]gain"},
	{segno.Edit, "e", "[e]dit the arguments", ""},
	{segno.Reject, "rn", "[r]eject", "[r] leave it unknown"},
	{segno.Respond, "s", "[s]ay what came of it", "[s]ay what came of it"},
	{"", "l", "[l]ater", "[l]ater"},
}

// choices are the answers that the question allows.
func (q *question) choices() (all []choice) {
	for _, c := range choices {
		if c.kind == "" || slices.Contains(q.about.Allowed, c.kind) {
			all = append(all, c)
		}
	}
	return all
}

// choice returns the choice with a key.
func (q *question) choice(key string) (choice, bool) {
	for _, c := range q.choices() {
		if len(key) == 1 && strings.Contains(c.keys, key) {
			return c, true
		}
	}
	return choice{}, false
}

// unpick returns the key that was picked and picks none.
func (q *question) unpick() string {
	key := q.picked
	q.picked = ""
	return key
}

// step picks the next choice, or the one before.
func (q *question) step(forward bool) {
	all := q.choices()
	at := slices.IndexFunc(all, func(c choice) bool { return q.picked != "" && strings.Contains(c.keys, q.picked) })
	switch {
	case forward:
		at = (at + 1) % len(all)
	case at <= 0:
		at = len(all) - 1
	default:
		at--
	}
	q.picked = all[at].keys[:1]
}

// ask asks about the first call that waits. All that is asked about is printed above,
// where it can be scrolled to however long it is.
func (m *model) ask() {
	m.state = asking
	q := &m.question
	q.about, q.of, q.picked = m.standing.Interrupts[0], len(m.standing.Interrupts), ""
	if q.told == q.about.ID {
		return // its keys are taken already, or will be
	}
	q.told, q.ready, q.timed = q.about.ID, false, false
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

// choose takes a key of the question while the line is empty. A letter only picks a choice,
// and enter takes it: the letter may be the beginning of a line.
func (m *model) choose(name string, k tea.KeyPressMsg) tea.Cmd {
	q := &m.question
	switch _, known := q.choice(name); {
	case name == "enter" && q.picked == "":
		m.notice = "pick an answer with its letter or an arrow first"
	case name == "enter":
		return m.take(q.unpick())
	case name == "right" || name == "down" || name == "tab":
		q.step(true)
	case name == "left" || name == "up" || name == "shift+tab":
		q.step(false)
	case (name == "esc" || name == "backspace") && q.picked != "":
		q.picked = ""
	case name == "esc":
		return m.take("l")
	case name == "ctrl+d":
		m.quitting = true
	case known && q.picked == "":
		q.picked = name
	default:
		return m.enter(k)
	}
	return nil
}

// take answers with the choice that has a key, or asks for what the answer needs.
func (m *model) take(key string) tea.Cmd {
	q := &m.question
	c, _ := q.choice(key)
	switch {
	case c.kind == "":
		m.state, m.notice, q.told = idle, "it waits; enter asks again", ""
		m.back()
		return nil
	case c.kind == segno.Approve, key == "n":
		return m.decide(segno.Decision{Kind: c.kind})
	}
	q.kind, q.sure, m.state = c.kind, false, editing
	q.area.Reset()
	if c.kind == segno.Edit {
		q.area.SetValue(editable(q.about.Args))
		q.area.MoveToBegin()
	}
	return nil
}

// write takes a key of the answer's text area.
func (m *model) write(name string, k tea.KeyPressMsg) tea.Cmd {
	if q := &m.question; q.sure {
		switch q.sure = false; name {
		case "y":
			return m.decide(segno.Decision{Kind: q.kind, Text: q.area.Value()})
		case "n", "esc", "enter":
			return nil
		}
	}
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
	case d.Kind != segno.Edit && chat.CommandOf(text) != "":
		return m.command(text)
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
	case d.Kind == segno.Respond:
		m.question.sure = true
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

// answers says what can be answered, and what enter does.
func (q *question) answers() string {
	var all []string
	for _, c := range q.choices() {
		label := c.label
		if q.about.Reason == segno.ReasonUnknown {
			label = c.lost
		}
		if q.picked != "" && strings.Contains(c.keys, q.picked) {
			label = "▸" + label
		}
		all = append(all, label)
	}
	text := strings.Join(all, "  ")
	if q.picked != "" {
		text += "  enter takes it"
	}
	return text
}
