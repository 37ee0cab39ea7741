package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
)

// styles are the few looks there are.
type styles struct{ dim, bold, warn, bar lipgloss.Style }

func stylesOf(colour bool) styles {
	plain := lipgloss.NewStyle()
	if !colour {
		return styles{plain, plain, plain, plain}
	}
	return styles{dim: plain.Faint(true), bold: plain.Bold(true), warn: plain.Foreground(lipgloss.Yellow), bar: plain.Reverse(true)}
}

// View is what stands below the conversation.
func (m *model) View() tea.View {
	lines := m.under()
	var cursor *tea.Cursor
	switch m.state {
	case idle:
		lines, cursor = place(lines, "> ", m.input.View(), m.input.Cursor())
	case running, busy:
		lines, cursor = m.typed(append(lines, m.style.dim.Render("working; ctrl+c stops it")))
	case asking, editing:
		head := line(m.question.head())
		if n := m.question.rows; n > m.height-4 {
			head += fmt.Sprintf("; scroll up: it has %d lines", n)
		}
		lines = append(lines, m.style.warn.Render(cut(head, m.width)))
		lines, cursor = m.asked(lines)
	}
	if m.notice != "" {
		said := wrap(line(m.notice), "", m.width)
		lines = append(lines, m.style.dim.Render(strings.Join(said[:min(3, len(said))], "\n")))
	}
	lines = append(lines, m.status())
	v := tea.NewView(strings.Join(lines, "\n"))
	v.Cursor = cursor
	return v
}

// place adds a text area below lines, and says where its cursor is.
func place(lines []string, prefix, area string, at *tea.Cursor) ([]string, *tea.Cursor) {
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

// typed adds the line that is typed ahead, if there is one.
func (m *model) typed(lines []string) ([]string, *tea.Cursor) {
	if m.input.Value() == "" {
		return lines, nil
	}
	return place(lines, "> ", m.input.View(), m.input.Cursor())
}

// asked adds what is asked about, or what is answered.
func (m *model) asked(lines []string) ([]string, *tea.Cursor) {
	if m.state == editing {
		label := map[segno.DecisionKind]string{segno.Edit: "the arguments", segno.Reject: "why, for the agent", segno.Respond: "what came of it"}[m.question.kind]
		if m.question.sure {
			label = fmt.Sprintf("told as the result of %s, which does not run; y sends it, n goes back", m.question.about.Tool)
		} else {
			label += "; enter sends, ctrl+j is a new line, esc goes back"
		}
		for _, row := range wrap(line(label), "", m.width) {
			lines = append(lines, m.style.dim.Render(row))
		}
		return place(lines, "  ", m.question.area.View(), m.question.area.Cursor())
	}
	switch {
	case m.input.Value() != "":
		return m.typed(append(lines, m.style.bold.Render(cut(m.lineHelp(), m.width))))
	case !m.question.ready:
		return append(lines, m.style.dim.Render("…")), nil
	}
	for _, row := range wrap(m.question.answers(), "", m.width) {
		lines = append(lines, m.style.bold.Render(row))
	}
	return lines, nil
}

// lineHelp says what enter does with a line while a question waits.
func (m *model) lineHelp() string {
	if chat.IsCommand(m.input.Value()) && m.question.ready {
		return "enter does this; the question waits"
	}
	return "enter puts your line away until this is answered"
}

// under is what is being said and done, and what is to do.
func (m *model) under() (lines []string) {
	if m.saying.Len() > 0 {
		text := m.saying.String()
		if n := len(text) - 4*m.width*m.height; n > 0 {
			text = strings.ToValidUTF8(text[n:], "") // what is further up is not seen, and would be wrapped again for each word
		}
		said := wrap(clean(text), "", m.width)
		lines = append(lines, said[max(0, len(said)-max(3, m.height/2)):]...)
	}
	for _, c := range m.calls {
		lines = append(lines, m.style.dim.Render(cut("… "+line(chat.Call(c.Name, c.Args)), m.width)))
	}
	return append(lines, m.todos()...)
}

// todos shows what is to do while something is.
func (m *model) todos() (lines []string) {
	done := 0
	for _, t := range m.standing.TodoList {
		if t.Status == "completed" || t.Status == "cancelled" {
			done++
		}
	}
	all := len(m.standing.TodoList)
	if done == all {
		return nil
	}
	lines = append(lines, m.style.dim.Render(fmt.Sprintf("todos: %d of %d done", done, all)))
	const most = 5
	for _, t := range m.standing.TodoList {
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
		lines = append(lines, cut("  "+sign+" "+line(t.Text), m.width))
	}
	return lines
}

// status is the line at the bottom.
func (m *model) status() string {
	head := "new"
	if m.standing.Head != "" {
		head = chat.Short(m.standing.Head)
	}
	text := fmt.Sprintf(" session %s │ step %d │ %s │ head %s", line(m.standing.Session), m.standing.Step, line(m.name), head)
	if n := len(m.standing.Interrupts); n > 0 {
		text += fmt.Sprintf(" │ %d waiting", n)
	}
	return m.style.bar.Render(cut(text, m.width))
}
