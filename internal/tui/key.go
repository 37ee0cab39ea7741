package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// key takes a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return m.interrupt()
	}
	m.armed, m.notice = false, ""
	switch m.state {
	case asking:
		return m.choose(name)
	case editing:
		return m.write(name, k)
	case idle:
		return m.prompt(name, k)
	}
	return nil
}

// interrupt stops a run; a second time, or with nothing to stop, it leaves.
func (m *model) interrupt() tea.Cmd {
	switch {
	case m.armed:
		m.quitting = true
		if m.stream != nil {
			m.stream.cancel()
		}
	case m.state == running:
		m.armed = true
		m.stream.cancel()
		m.notice = "stopping; everything so far is saved. ctrl+c again leaves"
	case m.state == idle && m.input.Value() != "":
		m.input.Reset()
	default:
		m.armed, m.notice = true, "ctrl+c again leaves; everything is saved"
	}
	return nil
}

// prompt takes a key of the prompt.
func (m *model) prompt(name string, k tea.KeyPressMsg) tea.Cmd {
	switch name {
	case "enter":
		return m.submit()
	case "ctrl+j", "alt+enter", "shift+enter":
		m.input.InsertString("\n")
		return nil
	case "up", "down":
		if text, ok := m.past.turn(name == "up", m.input); ok {
			m.input.SetValue(text)
			return nil
		}
	case "ctrl+d":
		if m.input.Value() == "" {
			m.quitting = true
			return nil
		}
	}
	return m.enter(k)
}

// submit sends what was typed.
func (m *model) submit() tea.Cmd {
	text := m.input.Value()
	if strings.TrimSpace(text) == "" {
		if len(m.standing.Interrupts) > 0 {
			m.ask()
		}
		return nil
	}
	if chat.IsCommand(text) {
		m.past.add(text)
		m.input.Reset()
		m.say("", text)
		m.state = busy
		return func() tea.Msg {
			r, err := m.chat.Command(m.ctx, text)
			return replied{r, err}
		}
	}
	if len(m.standing.Interrupts) > 0 {
		m.ask() // the prompt stays where it is
		m.notice = "this is waited for first"
		return nil
	}
	m.past.add(text)
	m.input.Reset()
	return m.run(agent.Input{Prompt: text})
}

// enter passes a key or a paste to the text area that is there.
func (m *model) enter(msg tea.Msg) (cmd tea.Cmd) {
	switch m.state {
	case idle:
		m.input, cmd = m.input.Update(msg)
	case editing:
		m.question.area, cmd = m.question.area.Update(msg)
	}
	return cmd
}
