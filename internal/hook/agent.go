package hook

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
)

// agent describes how an agent runs hooks: where they are registered, and what its events mean.
type agent struct {
	name string // in links, on the command line and in the commands that are registered
	// registrations are the events that segno registers for.
	registrations []registration
	// isShell is set if the agent runs one string in a shell, instead of a program with arguments.
	isShell bool
	// userFile and projectFile are the settings files of the user and of a project, relative to
	// the agent's home and to the project.
	userFile, projectFile string
	// config is the user's file with the command that the agent runs at the end of a turn even if it
	// runs no hooks. It is "" if there is no such setting.
	config string
	// sessions is the directory of the session files, relative to the agent's home.
	sessions string
	home     func(local.Place) string
	// dirVar is the environment variable with the directory in which a session started. It is "" if
	// the events contain that directory.
	dirVar string
	// writesAfterStop is set if the agent writes its last message to the transcript at the same
	// time as it runs the hook for the end of a turn.
	writesAfterStop bool
	// hasSubagentPrompts is set if the agent sends the same events for a subagent as for a user's
	// prompt, and does not list the running tasks at the end of a turn.
	hasSubagentPrompts bool
	// isReviewed is set if the agent runs a hook only after the user reviewed it.
	isReviewed bool
	// inMilliseconds is set if timeouts in the agent's settings are milliseconds, not seconds.
	inMilliseconds bool
	// isNamed is set if the agent shows the name of a running hook, or the command of a hook without a name.
	isNamed bool
	// isPlugin is set if the file is a plugin, which is a program that segno wrote, and not the
	// user's settings.
	isPlugin bool
}

// claudeCode runs hooks synchronously: it kills an asynchronous Stop hook together with a print-mode
// process, which would lose the turn. WorktreeCreate is not registered, because a hook on it
// replaces the creation.
var claudeCode = agent{
	name: "claude",
	registrations: []registration{
		{"SessionStart", "", 10},
		{"UserPromptSubmit", "", 60},
		{"PreToolUse", "*", 5},
		{"PostToolUse", "*", 5},
		{"PostToolUseFailure", "*", 5},
		{"Stop", "", 60},
		{"StopFailure", "", 60},
		{"SubagentStop", "", 5},
		{"WorktreeRemove", "", 30},
		{"SessionEnd", "", 30},
	},
	userFile: "settings.json", projectFile: filepath.Join(".claude", "settings.local.json"), sessions: "projects",
	home:   func(p local.Place) string { return p.Claude },
	dirVar: "CLAUDE_PROJECT_DIR", writesAfterStop: true,
}

// codex waits at most 3 seconds for the hooks of Interrupt and SessionEnd, and warns about a longer
// timeout. Version 0.125 ignores these two events and SubagentStop. The list and its order are part of what the
// user trusts: a change makes Codex ask the user to review the hooks again.
var codex = agent{
	name: "codex",
	registrations: []registration{
		{"SessionStart", "", 10},
		{"UserPromptSubmit", "", 60},
		{"PreToolUse", "", 5},
		{"PostToolUse", "", 5},
		{"Stop", "", 60},
		{"SubagentStop", "", 5},
		{"Interrupt", "", 3},
		{"SessionEnd", "", 3},
	},
	isShell:  true,
	userFile: "hooks.json", projectFile: filepath.Join(".codex", "hooks.json"), config: "config.toml", sessions: "sessions",
	home:       func(p local.Place) string { return p.Codex },
	isReviewed: true, hasSubagentPrompts: true,
}

// geminiCLI has other names for the events (see [event.Name]). PreCompress is not registered,
// because Gemini CLI fires it at every call of the model, whether it compresses or not.
var geminiCLI = agent{
	name: "gemini",
	registrations: []registration{
		{"SessionStart", "", 10},
		{"BeforeAgent", "", 60},
		{"BeforeTool", "", 5},
		{"AfterTool", "", 5},
		{"AfterAgent", "", 60},
		{"SessionEnd", "", 30},
	},
	isShell: true, inMilliseconds: true, isNamed: true,
	userFile: "settings.json", projectFile: filepath.Join(".gemini", "settings.json"), sessions: "tmp",
	home:   func(p local.Place) string { return p.Gemini },
	dirVar: "GEMINI_PROJECT_DIR",
}

// openCode has no hooks that run commands. It loads plugins, and segno's plugin sends the events.
var openCode = agent{
	name: "opencode",
	registrations: []registration{
		{"SessionStart", "", 10},
		{"UserPromptSubmit", "", 60},
		{"PreToolUse", "", 5},
		{"PostToolUse", "", 5},
		{"Stop", "", 60},
		{"Interrupt", "", 60},
	},
	isPlugin: true,
	userFile: filepath.Join("plugins", "segno.js"), projectFile: filepath.Join(".opencode", "plugins", "segno.js"),
	home: func(p local.Place) string { return p.OpenCode },
}

func agents() []agent { return []agent{claudeCode, codex, geminiCLI, openCode} }

// Agents returns the names of the agents whose hooks segno can register.
func Agents() (names []string) {
	for _, a := range agents() {
		names = append(names, a.name)
	}
	return names
}

// agentOf returns the agent with a name, and Claude Code for any other name. Callers check the name
// against [Agents].
func agentOf(name string) agent {
	all := agents()
	return all[max(0, slices.IndexFunc(all, func(a agent) bool { return a.name == name }))]
}

// turnEnd returns the agent's name of the event at the end of a turn.
func (a agent) turnEnd() string {
	i := slices.IndexFunc(a.registrations, func(r registration) bool { return event.Name(r.event) == "Stop" })
	return a.registrations[i].event
}

// deadline returns how long an event may take. It is shorter than the timeout in the registration
// that the agent enforces, so that the hook ends in order and is not killed.
func (a agent) deadline(name string) time.Duration {
	if name == eventNotify {
		return time.Minute // Codex does not wait for its end
	}
	for _, r := range a.registrations {
		if event.Name(r.event) == name {
			return time.Duration(r.timeout)*time.Second - time.Second
		}
	}
	return 4 * time.Second
}

// handler returns the handler of an event in the agent's settings.
func (a agent) handler(run []string, timeout int) command {
	c := command{Type: "command", Timeout: timeout}
	if a.inMilliseconds {
		c.Timeout *= 1000
	}
	if a.isNamed {
		c.Name = "segno"
	}
	if a.isShell {
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
	if a.isShell {
		run = nil
		if len(c.Args) == 0 {
			run = shellWords(c.Command)
		}
	}
	if n := len(run); n < 3 || run[n-2] != "hook" || run[n-1] != a.name {
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
		return filepath.Join(project, a.projectFile)
	}
	return filepath.Join(a.home(p), a.userFile)
}

// configFile returns the file with the agent's other settings.
func (a agent) configFile(p local.Place) string { return filepath.Join(a.home(p), a.config) }

// hasNotify reports whether enabling hooks in a settings file also sets the agent's command for the
// end of a turn. Codex ignores that command in a project's settings.
func (a agent) hasNotify(p local.Place, settings string) bool {
	return a.config != "" && settings == a.settingsFile(p, "")
}
