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
	switch name {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+z":
		return tea.Suspend
	}
	m.armed, m.notice = false, ""
	switch {
	case m.state == asking && m.question.ready && m.input.Value() == "":
		return m.choose(name, k)
	case m.state == editing:
		return m.write(name, k)
	case m.state == idle:
		return m.prompt(name, k)
	}
	return m.ahead(name, k)
}

// ahead takes a key that is typed while something else goes on: it is for the next
// prompt, and no answer to a question that comes up meanwhile.
func (m *model) ahead(name string, k tea.KeyPressMsg) tea.Cmd {
	switch name {
	case "enter":
		switch {
		case m.input.Value() == "":
		case m.state == asking && m.question.ready && chat.IsCommand(m.input.Value()):
			return m.submit()
		case m.state == asking && m.question.ready:
			m.aside()
		default:
			m.notice = "this line stays; send it when it is your turn"
		}
		return nil
	case "ctrl+j", "alt+enter", "shift+enter":
		m.input.InsertString("\n")
		return nil
	case "up", "down", "esc", "ctrl+d":
		return nil
	}
	return m.enter(k)
}

// aside puts the line away until there is nothing to answer, after those put away before.
func (m *model) aside() {
	m.draft = strings.TrimPrefix(m.draft+"\n"+m.input.Value(), "\n")
	m.input.Reset()
}

// back brings the line back, unless another was begun.
func (m *model) back() {
	if m.draft != "" && m.input.Value() == "" {
		m.input.SetValue(m.draft)
		m.draft = ""
	}
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
	case m.input.Value() != "" && m.state != editing:
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
		m.input.Reset()
		return m.command(text)
	}
	if len(m.standing.Interrupts) > 0 {
		m.aside()
		m.ask()
		m.notice = "this is waited for first; the line comes back"
		return nil
	}
	m.past.add(text)
	m.input.Reset()
	return m.run(agent.Input{Prompt: text})
}

// command does what a line says that begins with a slash.
func (m *model) command(text string) tea.Cmd {
	m.past.add(text)
	m.say("", text)
	m.state = busy
	return func() tea.Msg {
		r, err := m.chat.Command(m.ctx, text)
		return replied{r, err}
	}
}

// enter passes a key or a paste to the text area that is there.
func (m *model) enter(msg tea.Msg) (cmd tea.Cmd) {
	if m.state == editing {
		m.question.sure = false
		m.question.area, cmd = m.question.area.Update(msg)
		return cmd
	}
	m.input.InsertString(m.question.unpick()) // it was the beginning of a line
	m.input, cmd = m.input.Update(msg)
	return cmd
}
