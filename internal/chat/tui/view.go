package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/history/printable"
)

// styles are the styles of the screen.
type styles struct{ dim, bold, warn, bar lipgloss.Style }

func stylesOf(colour bool) styles {
	plain := lipgloss.NewStyle()
	if !colour {
		return styles{plain, plain, plain, plain}
	}
	return styles{dim: plain.Faint(true), bold: plain.Bold(true), warn: plain.Foreground(lipgloss.Yellow), bar: plain.Reverse(true)}
}

// View returns the lines below the conversation.
func (m *model) View() tea.View {
	lines := m.liveLines()
	var cursor *tea.Cursor
	switch m.state {
	case idle:
		lines, cursor = appendArea(lines, "> ", m.input.View(), m.input.Cursor())
	case running, busy:
		lines, cursor = m.draftLines(append(lines, m.style.dim.Render("working; ctrl+c stops it")))
	case asking, editing:
		head := escapeLine(m.question.title())
		if n := m.question.lineCount; n > m.height-4 {
			head += fmt.Sprintf("; scroll up: it has %d lines", n)
		}
		lines = append(lines, m.style.warn.Render(cut(head, m.width)))
		lines, cursor = m.questionLines(lines)
	}
	if m.notice != "" {
		said := wrap(escapeLine(m.notice), "", m.width)
		lines = append(lines, m.style.dim.Render(strings.Join(said[:min(3, len(said))], "\n")))
	}
	lines = append(lines, m.statusBar())
	v := tea.NewView(strings.Join(lines, "\n"))
	v.Cursor = cursor
	return v
}

// appendArea appends a text area to lines, and returns the position of its cursor.
func appendArea(lines []string, prefix, area string, at *tea.Cursor) ([]string, *tea.Cursor) {
	if at != nil {
		at.X += len(prefix)
		at.Y += len(lines)
	}
	for i, row := range strings.Split(strings.TrimRight(area, "\n"), "\n") {
		if i > 0 {
			prefix = "  "
		}
		lines = append(lines, strings.TrimRight(prefix+row, " "))
	}
	return lines, at
}

// draftLines appends the line that the user types during a run, if there is one.
func (m *model) draftLines(lines []string) ([]string, *tea.Cursor) {
	if m.input.Value() == "" {
		return lines, nil
	}
	return appendArea(lines, "> ", m.input.View(), m.input.Cursor())
}

// questionLines appends the choices of the question, or the editor of the answer.
func (m *model) questionLines(lines []string) ([]string, *tea.Cursor) {
	if m.state == editing {
		label := map[segno.DecisionKind]string{segno.Edit: "the arguments", segno.Reject: "the reason, for the agent", segno.Respond: "the reply"}[m.question.kind]
		if m.question.confirming {
			label = fmt.Sprintf("send this as the result of %s, which does not run? y sends it, n goes back", m.question.about.Tool)
		} else {
			label += "; enter sends, ctrl+j begins a new line, esc goes back"
		}
		for _, row := range wrap(escapeLine(label), "", m.width) {
			lines = append(lines, m.style.dim.Render(row))
		}
		return appendArea(lines, "  ", m.question.area.View(), m.question.area.Cursor())
	}
	switch {
	case m.input.Value() != "":
		return m.draftLines(append(lines, m.style.bold.Render(cut(m.lineHelp(), m.width))))
	case !m.question.ready:
		return append(lines, m.style.dim.Render("…")), nil
	}
	for _, row := range wrap(m.question.choiceLine(), "", m.width) {
		lines = append(lines, m.style.bold.Render(row))
	}
	return lines, nil
}

// lineHelp describes the effect of enter on a line while a question is open.
func (m *model) lineHelp() string {
	if chat.IsCommand(m.input.Value()) && m.question.ready {
		return "enter runs this command; the question stays open"
	}
	return "enter keeps your line until this is answered"
}

// liveLines returns the incoming text, the running calls and the todos.
func (m *model) liveLines() (lines []string) {
	if m.answerText.Len() > 0 {
		text := m.answerText.String()
		if n := len(text) - 4*m.width*m.height; n > 0 {
			text = strings.ToValidUTF8(text[n:], "") // do not wrap the text above the screen again for each word
		}
		said := wrap(printable.Lines(text), "", m.width)
		lines = append(lines, said[max(0, len(said)-max(3, m.height/2)):]...)
	}
	for _, c := range m.calls {
		lines = append(lines, m.style.dim.Render(cut("… "+escapeLine(chat.Call(c.Name, c.Args)), m.width)))
	}
	return append(lines, m.todos()...)
}

// todos returns the todo list while an item is open.
func (m *model) todos() (lines []string) {
	done := 0
	for _, t := range m.session.TodoList {
		if t.Status == "completed" || t.Status == "cancelled" {
			done++
		}
	}
	all := len(m.session.TodoList)
	if done == all {
		return nil
	}
	lines = append(lines, m.style.dim.Render(fmt.Sprintf("todos: %d of %d done", done, all)))
	const most = 5
	for _, t := range m.session.TodoList {
		sign := map[string]string{"completed": "✓", "cancelled": "-", "in_progress": "▸"}[t.Status]
		if sign == "✓" || sign == "-" {
			continue
		}
		if len(lines) > most {
			lines = append(lines, m.style.dim.Render(fmt.Sprintf("  … and %d more", all-done-most)))
			break
		}
		if sign == "" {
			sign = "○"
		}
		lines = append(lines, cut("  "+sign+" "+escapeLine(t.Text), m.width))
	}
	return lines
}

// statusBar is the line at the bottom.
func (m *model) statusBar() string {
	head := "new"
	if m.session.Head != "" {
		head = chat.Short(m.session.Head)
	}
	text := fmt.Sprintf(" session %s │ step %d │ %s │ head %s", escapeLine(m.session.Session), m.session.Step, escapeLine(m.name), head)
	if n := len(m.session.Interrupts); n > 0 {
		text += fmt.Sprintf(" │ %d waiting", n)
	}
	return m.style.bar.Render(cut(text, m.width))
}
