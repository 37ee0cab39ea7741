package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// key handles a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch name {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+z":
		return tea.Suspend
	}
	m.quitArmed, m.notice = false, ""
	switch {
	case m.state == asking && m.question.ready && m.input.Value() == "":
		return m.choose(name, k)
	case m.state == editing:
		return m.editKey(name, k)
	case m.state == idle:
		return m.prompt(name, k)
	}
	return m.typeAhead(name, k)
}

// typeAhead handles a key during a run or a question. The key edits the next prompt; it does
// not answer a question that appears meanwhile.
func (m *model) typeAhead(name string, k tea.KeyPressMsg) tea.Cmd {
	switch name {
	case "enter":
		switch {
		case m.input.Value() == "":
		case m.state == asking && m.question.ready && chat.IsCommand(m.input.Value()):
			return m.submit()
		case m.state == asking && m.question.ready:
			m.setAside()
		default:
			m.notice = "your line is kept; send it when the run ends"
		}
		return nil
	case "ctrl+j", "alt+enter", "shift+enter":
		m.input.InsertString("\n")
		return nil
	case "up", "down", "esc", "ctrl+d":
		return nil
	}
	return m.insertKey(k)
}

// setAside stores the line until no question is open. It appends the line to those stored
// earlier.
func (m *model) setAside() {
	m.draft = strings.TrimPrefix(m.draft+"\n"+m.input.Value(), "\n")
	m.input.Reset()
}

// restoreDraft restores the stored line, unless the user has begun another one.
func (m *model) restoreDraft() {
	if m.draft != "" && m.input.Value() == "" {
		m.input.SetValue(m.draft)
		m.draft = ""
	}
}

// interrupt handles ctrl+c. It stops the run, or else clears the typed line. If it did not
// clear a line, the next call quits the program.
func (m *model) interrupt() tea.Cmd {
	switch {
	case m.quitArmed:
		m.quitting = true
		if m.stream != nil {
			m.stream.cancel()
		}
	case m.state == running:
		m.quitArmed = true
		m.stream.cancel()
		m.notice = "stopping; the work so far is saved. Press ctrl+c again to exit"
	case m.input.Value() != "" && m.state != editing:
		m.input.Reset()
	default:
		m.quitArmed, m.notice = true, "press ctrl+c again to exit; everything is saved"
	}
	return nil
}

// prompt handles a key at the prompt.
func (m *model) prompt(name string, k tea.KeyPressMsg) tea.Cmd {
	switch name {
	case "enter":
		return m.submit()
	case "ctrl+j", "alt+enter", "shift+enter":
		m.input.InsertString("\n")
		return nil
	case "up", "down":
		if text, ok := m.history.move(name == "up", m.input); ok {
			m.input.SetValue(text)
			return nil
		}
	case "ctrl+d":
		if m.input.Value() == "" {
			m.quitting = true
			return nil
		}
	}
	return m.insertKey(k)
}

// submit sends the line.
func (m *model) submit() tea.Cmd {
	text := m.input.Value()
	if strings.TrimSpace(text) == "" {
		if len(m.session.Interrupts) > 0 {
			m.ask()
		}
		return nil
	}
	if chat.IsCommand(text) {
		m.input.Reset()
		return m.command(text)
	}
	if len(m.session.Interrupts) > 0 {
		m.setAside()
		m.ask()
		m.notice = "answer this first; your line is kept"
		return nil
	}
	m.history.add(text)
	m.input.Reset()
	return m.run(agent.Input{Prompt: text})
}

// command runs a command of the chat.
func (m *model) command(text string) tea.Cmd {
	m.history.add(text)
	m.say("", text)
	m.state = busy
	return func() tea.Msg {
		r, err := m.chat.Command(m.ctx, text)
		return replyMsg{r, err}
	}
}

// insertKey passes a key or a paste to the visible text area.
func (m *model) insertKey(msg tea.Msg) (cmd tea.Cmd) {
	if m.state == editing {
		m.question.confirming = false
		m.question.area, cmd = m.question.area.Update(msg)
		return cmd
	}
	m.input.InsertString(m.question.takePicked()) // the picked letter was meant as the beginning of a line
	m.input, cmd = m.input.Update(msg)
	return cmd
}
