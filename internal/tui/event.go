package tui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// hear takes in what a run tells.
func (m *model) hear(t told) tea.Cmd {
	if t.over {
		m.stream, m.calls, m.armed = nil, nil, false
		m.brokenOff()
		return m.settled()
	}
	if t.err != nil {
		m.brokenOff()
	}
	switch {
	case t.err != nil && segno.KindOf(t.err) == segno.KindCancelled:
		if m.notice = "stopped; the work so far is saved"; m.sent != "" {
			m.notice = "stopped before it began; the prompt is yours again"
		}
	case t.err != nil && segno.KindOf(t.err) == segno.KindInvalid && m.question.edited != "":
		m.question.wrong = t.err
	case t.err != nil:
		m.complain(t.err)
	default:
		m.event(t.event)
	}
	return m.stream.next
}

// brokenOff keeps in sight what was said before something ended it.
func (m *model) brokenOff() {
	if m.saying.Len() > 0 {
		m.say("", m.saying.String()+" …")
	}
	m.saying.Reset()
}

func (m *model) event(e agent.Event) {
	own := e.Agent == ""
	if own {
		m.heard[e.Seq] = true
	}
	switch e.Kind {
	case agent.EventUserMessage:
		if own {
			if e.Message.Text() == m.sent {
				m.sent = ""
			}
			m.say("> ", e.Message.Text())
		}
	case agent.EventText:
		if own {
			m.saying.WriteString(e.Text)
		}
	case agent.EventRetry:
		m.saying.Reset()
		m.say("", chat.Line(e))
	case agent.EventSegment:
		if own {
			m.saying.Reset()
			m.say("", e.Text)
		}
	case agent.EventToolStart:
		m.calls = append(m.calls, *e.Call)
	case agent.EventToolResult:
		m.calls = slices.DeleteFunc(m.calls, func(c agent.Call) bool { return c.ID == e.Result.Call })
		m.say("", chat.Line(e))
	case agent.EventTodos:
		if own {
			m.standing.Todos = e.Todos
		}
	case agent.EventDecision:
		m.say("", decided(e.Decision))
	case agent.EventSaved:
		if own {
			m.standing.Head, m.standing.Step, m.standing.New = e.Saved, e.Step, false
		}
	default:
		if text := chat.Line(e); text != "" {
			m.say("", text)
		}
	}
}

func decided(d *segno.Decision) string {
	text := map[segno.DecisionKind]string{segno.Approve: "approved", segno.Edit: "approved with " + string(d.Args),
		segno.Reject: "rejected", segno.Respond: "answered"}[d.Kind]
	if d.Text != "" {
		text += ": " + d.Text
	}
	return text
}

// shown is how many messages of a session are shown when it is gone on with.
const shown = 12

// recall shows the end of a conversation.
func (m *model) recall(messages []agent.Message) {
	if n := len(messages) - shown; n > 0 {
		messages = messages[n:]
		m.say("", "…")
	}
	for i := range messages {
		msg := &messages[i]
		for _, p := range msg.Parts {
			switch {
			case p.Text != "" && msg.Role == agent.User:
				m.past.add(p.Text)
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
