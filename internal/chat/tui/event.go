package tui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// onStreamEvent handles an event of a run, or its end.
func (m *model) onStreamEvent(t streamEvent) tea.Cmd {
	if t.over {
		m.stream, m.calls, m.quitArmed = nil, nil, false
		m.flushText()
		return m.loadAfterRun()
	}
	if t.err != nil {
		m.flushText()
	}
	switch {
	case t.err != nil && segno.KindOf(t.err) == segno.KindCancelled:
		if m.notice = "stopped; the work so far is saved"; m.sent != "" {
			m.notice = "stopped before the turn began; you can edit the prompt"
		}
	case t.err != nil && segno.KindOf(t.err) == segno.KindInvalid && m.question.edited != "":
		m.question.editError = t.err
	case t.err != nil:
		m.showError(t.err)
	default:
		m.showEvent(t.event)
	}
	return m.stream.next
}

// flushText prints the part of a text that the run did not complete.
func (m *model) flushText() {
	if m.answerText.Len() > 0 {
		m.say("", m.answerText.String()+" …")
	}
	m.answerText.Reset()
}

// showEvent shows an event of a run.
func (m *model) showEvent(e agent.Event) {
	if e.Agent == "" {
		m.shownSeqs[e.Seq] = true
		m.showOwnEvent(e)
	}
	switch e.Kind {
	case agent.EventRetry:
		m.answerText.Reset()
	case agent.EventToolStart:
		m.calls = append(m.calls, *e.Call)
	case agent.EventToolResult:
		m.calls = slices.DeleteFunc(m.calls, func(c agent.Call) bool { return c.ID == e.Result.Call })
	case agent.EventDecision:
		m.say("", describeDecision(e.Decision))
	}
	if text := chat.Line(e); text != "" {
		m.say("", text)
	}
}

// showOwnEvent shows an event of the agent itself. The chat does not show these events for subagents.
func (m *model) showOwnEvent(e agent.Event) {
	switch e.Kind {
	case agent.EventUserMessage:
		if e.Message.Text() == m.sent {
			m.sent = ""
		}
		m.say("> ", e.Message.Text())
	case agent.EventText:
		m.answerText.WriteString(e.Text)
	case agent.EventSegment:
		m.answerText.Reset()
		m.say("", e.Text)
	case agent.EventTodos:
		m.session.TodoList = e.Todos
	case agent.EventSaved:
		m.session.Head, m.session.Step, m.session.New = e.Saved, e.Step, false
	}
}

func describeDecision(d *segno.Decision) string {
	text := map[segno.DecisionKind]string{segno.Approve: "approved", segno.Edit: "approved with other arguments: " + string(d.Args),
		segno.Reject: "rejected", segno.Respond: "replied in its place"}[d.Kind]
	if d.Text != "" {
		text += ": " + d.Text
	}
	return text
}

// historyLimit is the number of messages shown when a session is opened.
const historyLimit = 12

// showHistory shows the end of a conversation.
func (m *model) showHistory(messages []agent.Message) {
	if n := len(messages) - historyLimit; n > 0 {
		messages = messages[n:]
		m.say("", "…")
	}
	for i := range messages {
		msg := &messages[i]
		for _, p := range msg.Parts {
			switch {
			case p.Text != "" && msg.Role == agent.User:
				m.history.add(p.Text)
				m.say("> ", p.Text)
			case p.Text != "":
				m.say("", p.Text)
			case p.Call != nil:
				m.say("", chat.Line(agent.Event{Kind: agent.EventToolCall, Call: p.Call}))
			case p.Result != nil:
				m.say("", chat.Line(agent.Event{Kind: agent.EventToolResult, Result: p.Result}))
			}
		}
	}
	if len(messages) > 0 {
		m.lines = append(m.lines, "")
	}
}
