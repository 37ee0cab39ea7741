package chat

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// Line is an event in a line for a person, "" for one that is not told so. It is
// text of models and files: whoever prints it cleans it.
func Line(e agent.Event) string {
	text := ""
	switch e.Kind {
	case agent.EventToolCall:
		text = "→ " + Call(e.Call.Name, e.Call.Args)
	case agent.EventToolResult:
		text = "  " + result(e.Result)
	case agent.EventRetry:
		text = "asking again: " + e.Text
	case agent.EventSubStart:
		return fmt.Sprintf("%s begins: %s", e.Path, first(e.Text))
	case agent.EventSummarized:
		text = fmt.Sprintf("%d messages were summed up; the log keeps them", e.Count)
	case agent.EventDone:
		text = map[agent.Stop]string{agent.StopLength: "the answer was cut short: it is as long as it may be", agent.StopRefusal: "the model refused to go on"}[e.Stop]
	}
	if text != "" && e.Agent != "" {
		return e.Agent + " " + text
	}
	return text
}

// Call is a call in a few words: the tool and what it is about.
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
		text += " … " + clip(lines[last]) // where a command says how it ended
	case last > 0:
		text += fmt.Sprintf(" (and %s)", many(last, "more line"))
	}
	if r.Error {
		return "✗ " + text
	}
	return "✓ " + text
}

// flat is a name on one line: what follows it in a list is not its.
func flat(name string) string { return strings.NewReplacer("\r", "⏎", "\n", "⏎").Replace(name) }

// quote is text of a person between quotation marks, in any script.
func quote(s string) string {
	return strings.NewReplacer(`\\`, `\\`, `\u200c`, "\u200c", `\u200d`, "\u200d").Replace(strconv.Quote(s))
}

// first is the first line of text.
func first(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(line)
}

// most is how many characters of a line are shown.
const most = 120

func clip(s string) string {
	s = strings.ReplaceAll(s, "\n", " ⏎ ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// Greeting says what was found of a session.
func (s *Status) Greeting() string {
	if s.New {
		return "New session " + flat(s.Session)
	}
	return fmt.Sprintf("Restored session %s: %s, %s, %s", flat(s.Session), many(s.Messages, "message"), many(s.Loaded.Todos, "todo"), many(s.Files, "file"))
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
