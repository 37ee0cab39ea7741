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

// question is the question about a call that the screen shows.
type question struct {
	about        segno.Interrupt
	total        int    // number of open questions
	printedID    string // id of the question printed last
	lineCount    int    // lines printed of the question
	ready        bool   // its keys are accepted
	timerStarted bool   // the timer that sets ready has started
	picked       string // the key of the choice that enter confirms, "" if none
	confirming   bool   // asks for confirmation of a reply in the tool's place
	edited       string // id of the question whose arguments were edited
	editError    error  // why the edited arguments are invalid
	kind         segno.DecisionKind
	area         textarea.Model // for arguments, a reason or a reply
}

// choice is a decision and its keys.
type choice struct {
	kind  segno.DecisionKind // "" decides later
	keys  string             // the first is in the label
	label string
	lost  string // the label for a call with a lost result
}

// choices are in the order on the screen. "n" rejects without a reason.
var choices = [...]choice{
	{segno.Approve, "ay", "[a]pprove", "run it [a]gain"},
	{segno.Edit, "e", "[e]dit the arguments", ""},
	{segno.Reject, "rn", "[r]eject", "[r] leave it unknown"},
	{segno.Respond, "s", "[s] reply in its place", "[s] reply in its place"},
	{"", "l", "[l]ater", "[l]ater"},
}

// choices returns the choices that the question allows.
func (q *question) choices() (all []choice) {
	for _, c := range choices {
		if c.kind == "" || slices.Contains(q.about.Allowed, c.kind) {
			all = append(all, c)
		}
	}
	return all
}

func (q *question) choice(key string) (choice, bool) {
	for _, c := range q.choices() {
		if len(key) == 1 && strings.Contains(c.keys, key) {
			return c, true
		}
	}
	return choice{}, false
}

// takePicked returns the picked key and clears it.
func (q *question) takePicked() string {
	key := q.picked
	q.picked = ""
	return key
}

// pickNext picks the next choice, or the previous one.
func (q *question) pickNext(forward bool) {
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

// ask asks the first open question. It prints the whole question above, where the user can
// scroll to it.
func (m *model) ask() {
	m.state = asking
	q := &m.question
	q.about, q.total, q.picked = m.session.Interrupts[0], len(m.session.Interrupts), ""
	if q.printedID == q.about.ID {
		return // it is already printed, and its timer has started or will start
	}
	q.printedID, q.ready, q.timerStarted = q.about.ID, false, false
	before := len(m.lines)
	m.say("", q.title())
	if q.about.Question != "" {
		m.say("  ", q.about.Question)
	}
	m.lines = append(m.lines, argumentLines(q.about.Args, m.width)...)
	q.lineCount = len(m.lines) - before
}

// pause is the time for which a question is visible before it accepts keys. The user meant an
// earlier key for something else.
const pause = 500 * time.Millisecond

// readyMsg reports that the question with this id was visible for the time of pause.
type readyMsg string

// startReadyTimer starts the timer for the question's keys after the question was printed.
func (m *model) startReadyTimer() tea.Cmd {
	q := &m.question
	if m.state != asking || q.timerStarted || m.printing || len(m.lines) > 0 {
		return nil
	}
	q.timerStarted = true
	id := readyMsg(q.about.ID)
	return m.after(pause, func() tea.Msg { return id })
}

// choose handles a key of the question while the line is empty. A letter picks a choice, and
// enter confirms it, because the letter may be the beginning of a line.
func (m *model) choose(name string, k tea.KeyPressMsg) tea.Cmd {
	q := &m.question
	picked := q.picked != ""
	switch name {
	case "enter":
		if picked {
			return m.confirm(q.takePicked())
		}
		m.notice = "pick an answer with its letter or an arrow key first"
		return nil
	case "right", "down", "tab":
		q.pickNext(true)
		return nil
	case "left", "up", "shift+tab":
		q.pickNext(false)
		return nil
	case "ctrl+d":
		m.quitting = true
		return nil
	case "esc":
		if !picked {
			return m.confirm("l")
		}
	}
	switch _, known := q.choice(name); {
	case picked && (name == "esc" || name == "backspace"):
		q.picked = ""
	case known && !picked:
		q.picked = name
	default:
		return m.insertKey(k)
	}
	return nil
}

// confirm makes the decision of the choice with a key, or asks for the text that the decision
// needs.
func (m *model) confirm(key string) tea.Cmd {
	q := &m.question
	c, _ := q.choice(key)
	switch {
	case c.kind == "":
		m.state, m.notice, q.printedID = idle, "the question stays open; enter asks again", ""
		m.restoreDraft()
		return nil
	case c.kind == segno.Approve, key == "n":
		return m.decide(segno.Decision{Kind: c.kind})
	}
	q.kind, q.confirming, m.state = c.kind, false, editing
	q.area.Reset()
	if c.kind == segno.Edit {
		q.area.SetValue(editableJSON(q.about.Args))
		q.area.MoveToBegin()
	}
	return nil
}

// editKey handles a key of the answer's text area.
func (m *model) editKey(name string, k tea.KeyPressMsg) tea.Cmd {
	if q := &m.question; q.confirming {
		switch q.confirming = false; name {
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
		return m.submitAnswer(m.question.area.Value())
	}
	return m.insertKey(k)
}

func (m *model) submitAnswer(text string) tea.Cmd {
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
		m.notice = "type the reply that the agent receives"
		return nil
	case d.Kind == segno.Respond:
		m.question.confirming = true
		return nil
	}
	return m.decide(d)
}

// showEditError shows why edited arguments are invalid. While the question is open, the text
// stays in the editor.
func (m *model) showEditError() {
	q := &m.question
	wrong := q.editError
	q.editError = nil
	switch {
	case wrong == nil:
	case m.state == asking && q.about.ID == q.edited:
		m.state, m.notice = editing, "refused: "+cause(wrong).Error()
	default:
		m.showError(wrong)
	}
}

// cause returns the error inside a [segno.Error].
func cause(err error) error {
	var e *segno.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// decide runs the session with a decision.
func (m *model) decide(d segno.Decision) tea.Cmd {
	d.Interrupt = m.question.about.ID
	cmd := m.run(agent.Input{Decide: []segno.Decision{d}})
	if d.Kind == segno.Edit {
		m.question.edited = d.Interrupt
	}
	return cmd
}

// title returns the question as a line.
func (q *question) title() string {
	text := fmt.Sprintf("Run %s?", q.about.Tool)
	if q.about.Tool == "execute" {
		text = "Run this command?"
	}
	if q.about.Reason == segno.ReasonUnknown {
		text = fmt.Sprintf("%s began and its result was lost", q.about.Tool)
	}
	if q.total > 1 {
		text += fmt.Sprintf(" (1 of %d)", q.total)
	}
	return text
}

// choiceLine returns the choices, and the effect of enter.
func (q *question) choiceLine() string {
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
		text += "  enter confirms"
	}
	return text
}
