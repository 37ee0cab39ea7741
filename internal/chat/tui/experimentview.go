package tui

import (
	"fmt"
	"path"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// View implements [tea.Model].
func (m *experimentModel) View() tea.View {
	head := append([]string{m.style.bar.Render(cut(m.title(), m.width))}, m.checkpointLines()...)
	foot := cut(m.help(), m.width)
	room := m.height - len(head) - 2 // a blank line and the foot
	agents := m.agentLines(max(1, room/2))
	room -= len(agents) + 1
	rows := append(append(head, ""), agents...)
	if room > 0 {
		rows = append(append(rows, ""), m.eventLines(room)...)
	}
	rows = rows[:min(len(rows), max(1, m.height-1))]
	for len(rows) < m.height-1 {
		rows = append(rows, "")
	}
	if m.height > 1 {
		rows = append(rows, m.style.dim.Render(foot))
	}
	v := tea.NewView(strings.Join(rows, "\n"))
	v.AltScreen = true
	return v
}

// title is the first line. On a narrow terminal its end is cut.
func (m *experimentModel) title() string {
	state := m.state
	if m.stopping {
		state = "stopping"
	}
	e := m.Experiment
	text := fmt.Sprintf(" %s │ %s", escapeLine(e.Name), state)
	if m.at.Generation == 0 {
		return text
	}
	text += fmt.Sprintf(" │ generation %d of %d", m.at.Generation, e.Generations)
	switch {
	case e.Ticks > 0:
		text += fmt.Sprintf(" │ tick %d of %d", m.at.Tick, e.Ticks)
	case m.at.Tick > 0:
		text += fmt.Sprintf(" │ tick %d", m.at.Tick)
	}
	if m.at.SimTime > 0 {
		text += fmt.Sprintf(" │ %s in the world", time.Duration(m.at.SimTime))
	}
	return text
}

// checkpointLines reports the checkpoints and all failures.
func (m *experimentModel) checkpointLines() (lines []string) {
	var facts []string
	switch left := m.nextCut.Sub(m.Now()).Round(time.Second); {
	case m.at.Generation == 0:
	case m.every == 0:
		facts = append(facts, "no checkpoints")
	case left > 0:
		facts = append(facts, fmt.Sprintf("next checkpoint in %s", left))
	case m.Experiment.Ticks > 0 || m.at.Tick > 0:
		facts = append(facts, "next checkpoint after this tick")
	default: // the world has no ticks
		facts = append(facts, "next checkpoint now")
	}
	if m.cuts > 0 {
		age := max(0, m.Now().Sub(m.lastCut.Time)).Truncate(time.Second)
		facts = append(facts, fmt.Sprintf("%d made", m.cuts), fmt.Sprintf("newest %s, %s ago", escapeLine(path.Base(m.lastCut.Path)), age))
	}
	lines = append(lines, cut(" "+strings.Join(facts, " │ "), m.width))
	var failures []string
	for _, f := range []struct {
		n    int
		text string
	}{{m.failed, "failed checkpoints: %d"}, {m.omitted, "without a conversation: %d"}, {m.retries, "failed generations: %d"}} {
		if f.n > 0 {
			failures = append(failures, fmt.Sprintf(f.text, f.n))
		}
	}
	if failures != nil {
		lines = append(lines, m.style.warn.Render(cut(" "+strings.Join(failures, " │ "), m.width)))
	}
	return lines
}

// agentLines returns the agents in at most n lines.
func (m *experimentModel) agentLines(n int) (lines []string) {
	wide := 0
	for _, a := range m.agents {
		wide = max(wide, len(a.name)) // the names in an experiment are ASCII
	}
	wide = min(wide, max(4, m.width/3))
	for i, a := range m.agents {
		if i == n-1 && len(m.agents) > n {
			return append(lines, m.style.dim.Render(cut(fmt.Sprintf(" … and %d more", len(m.agents)-i), m.width)))
		}
		sign, state := "○", "idle"
		if !a.since.IsZero() {
			sign, state = "●", "works "+max(0, m.Now().Sub(a.since)).Truncate(time.Second).String()
		}
		name := cut(a.name, wide)
		text := fmt.Sprintf(" %s %s%s  ", sign, name, strings.Repeat(" ", wide-ansi.StringWidth(name)))
		text += fmt.Sprintf("%-10s  %s", state, a.last)
		lines = append(lines, strings.TrimRight(cut(text, m.width), " "))
	}
	return lines
}

// eventLines returns the newest events in at most n lines.
func (m *experimentModel) eventLines(n int) (lines []string) {
	for _, l := range m.lines[max(0, len(m.lines)-n):] {
		for _, row := range wrap(l.text, "", m.width) {
			if row = cut(row, m.width); l.warn {
				row = m.style.warn.Render(row)
			}
			lines = append(lines, row)
		}
	}
	return lines[max(0, len(lines)-n):]
}

// help describes the keys.
func (m *experimentModel) help() string {
	if m.stopping {
		return " making a checkpoint; q again leaves this view at once"
	}
	return " q stops with a checkpoint; the same command continues"
}
