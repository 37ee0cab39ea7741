package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// Line returns an event as a line of text, or "" for an event without a line. The line may
// contain text of a model or a file, so the caller escapes it for a terminal.
func Line(e agent.Event) string {
	text := ""
	switch e.Kind {
	case agent.EventToolCall:
		text = "→ " + Call(e.Call.Name, e.Call.Args)
	case agent.EventToolResult:
		text = "  " + result(e.Result)
	case agent.EventRetry:
		text = "retrying: " + e.Text
	case agent.EventToolOverdue:
		text = e.Text
	case agent.EventSubStart:
		first, _, _ := strings.Cut(strings.TrimSpace(e.Text), "\n")
		return fmt.Sprintf("%s starts: %s", e.Path, clip(first))
	case agent.EventSummarized:
		text = fmt.Sprintf("summarized %d messages; the log has them", e.Count)
	case agent.EventDone:
		text = map[agent.Stop]string{agent.StopLength: "the answer reached its maximum length and was cut short", agent.StopRefusal: "the model refused to continue"}[e.Stop]
	}
	if text != "" && e.Agent != "" {
		return e.Agent + " " + text
	}
	return text
}

// Call describes a call: the tool and its most important argument.
func Call(name string, args json.RawMessage) string {
	var a struct{ Command, Path, Pattern, Agent, Prompt string }
	if json.Unmarshal(args, &a) == nil {
		for _, about := range []string{a.Command, a.Pattern, a.Path} {
			if about != "" {
				return name + " " + clip(about)
			}
		}
		if a.Agent != "" {
			return name + " " + a.Agent + ": " + clip(a.Prompt)
		}
	}
	if name == "write_todos" {
		return name
	}
	return name + " " + clip(string(args))
}

func result(r *agent.Result) string {
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(r.Text), "\r\n", "\n"), "\n")
	text, last := clip(lines[0]), len(lines)-1
	switch {
	case last > 0 && r.Error:
		text += " … " + clip(lines[last]) // a command's exit code is in the last line
	case last > 0:
		text += fmt.Sprintf(" (and %s)", count(last, "more line"))
	}
	if r.Error {
		return "✗ " + text
	}
	return "✓ " + text
}

// oneLine replaces the line breaks of a name by visible marks, so that the name cannot
// imitate a row of a list.
func oneLine(name string) string { return strings.NewReplacer("\r", "⏎", "\n", "⏎").Replace(name) }

// clip shortens text to one line of limited length.
func clip(s string) string {
	const limit = 120
	s = strings.ReplaceAll(s, "\n", " ⏎ ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Greeting describes a session that was opened.
func (s *Status) Greeting() string {
	if s.New {
		return "New session " + oneLine(s.Session)
	}
	return fmt.Sprintf("Restored session %s: %s, %s, %s", oneLine(s.Session), count(s.Messages, "message"), count(s.Todos, "todo"), count(s.Files, "file"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
