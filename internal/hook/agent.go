package hook

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
)

// agent is an agent that runs hooks.
type agent struct{ profile.Profile }

func agentOf(name string) (agent, error) {
	p, known := agents.Of(name)
	if !known || p.Hooks == nil {
		return agent{}, segno.Errorf(segno.KindInvalid, "find agent", name, "unknown agent %q", name).
			WithHint("name one of " + strings.Join(agents.WithHooks(), ", "))
	}
	return agent{p}, nil
}

// turnEnd returns the agent's name of the event at the end of a turn.
func (a agent) turnEnd() string {
	i := slices.IndexFunc(a.Hooks.Registrations, func(r profile.Registration) bool { return a.Hooks.NameOf(r.Event) == "Stop" })
	return a.Hooks.Registrations[i].Event
}

// deadline returns how long an event may take. It is shorter than the timeout in the registration
// that the agent enforces, so that the hook ends in order and is not killed.
func (a agent) deadline(name string) time.Duration {
	if name == eventNotify {
		return time.Minute // Codex does not wait for its end
	}
	for _, r := range a.Hooks.Registrations {
		if a.Hooks.NameOf(r.Event) == name {
			return time.Duration(r.Timeout)*time.Second - time.Second
		}
	}
	return 4 * time.Second
}

// handler returns the handler of an event in the agent's settings.
func (a agent) handler(run []string, timeout int) command {
	c := command{Type: "command", Timeout: timeout}
	if a.Hooks.InMilliseconds {
		c.Timeout *= 1000
	}
	if a.Hooks.ShowsNames {
		c.Name = "segno"
	}
	if a.Hooks.RunsShell {
		c.Command = shellLine(run)
	} else {
		c.Command, c.Args = run[0], run[1:]
	}
	return c
}

// commandOf returns the command and arguments of a handler that segno wrote. It returns nil for any
// other handler.
func (a agent) commandOf(c command) []string {
	run := append([]string{c.Command}, c.Args...)
	if a.Hooks.RunsShell {
		run = nil
		if len(c.Args) == 0 {
			run = shellWords(c.Command)
		}
	}
	words := run
	if n := len(words); n > 0 && words[n-1] == event.NoStepsArg {
		words = words[:n-1]
	}
	if n := len(words); n < 3 || words[n-2] != "hook" || words[n-1] != a.Name {
		return nil
	}
	return run
}

// shellLine returns a line that a POSIX shell splits into words.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// shellWords returns the words of a line that [shellLine] wrote. It returns nil for any other line.
func shellWords(line string) (words []string) {
	rest := line
	for rest != "" {
		var b strings.Builder
		for {
			inner, after, ok := strings.Cut(strings.TrimPrefix(rest, "'"), "'")
			if !strings.HasPrefix(rest, "'") || !ok {
				return nil
			}
			b.WriteString(inner)
			if rest = after; !strings.HasPrefix(rest, `\''`) {
				break
			}
			b.WriteByte('\'')
			rest = rest[len(`\'`):]
		}
		words = append(words, b.String())
		rest = strings.TrimPrefix(rest, " ")
	}
	if shellLine(words) != line {
		return nil
	}
	return words
}

// settingsFile returns the file with the hooks of a project, or with the user's hooks if project is
// "".
func (a agent) settingsFile(p local.Place, project string) string {
	if project != "" {
		return filepath.Join(project, a.Hooks.ProjectFile)
	}
	return filepath.Join(p.Homes[a.Name], a.Hooks.UserFile)
}

// configFile returns the file with the agent's other settings.
func (a agent) configFile(p local.Place) string {
	return filepath.Join(p.Homes[a.Name], a.Hooks.Config)
}

// hasNotify reports whether enabling hooks in a settings file also sets the agent's command for the
// end of a turn. Codex ignores that command in a project's settings.
func (a agent) hasNotify(p local.Place, settings string) bool {
	return a.Hooks.Config != "" && settings == a.settingsFile(p, "")
}
