package codex_test

import (
	"context"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// terminal is Codex in a terminal that a user works with.
type terminal struct {
	*e2erig.Stage
	tui *agentrig.TUI
}

// open starts the terminal program. A version that asks the user to review hooks runs them without
// asking.
func open(s *e2erig.Stage, agent *agentrig.Codex, args ...string) *terminal {
	s.Helper()
	if agent.Version != agentrig.CodexOldest {
		args = append([]string{"--dangerously-bypass-hook-trust"}, args...)
	}
	t := start(s, agent, args...)
	t.see("gpt-fake-1 default ·")
	return t
}

// start starts the terminal program and returns at once.
func start(s *e2erig.Stage, agent *agentrig.Codex, args ...string) *terminal {
	s.Helper()
	tui, err := agent.TUI(s.Ctx, args...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = tui.Kill() }) // it may have ended
	return &terminal{s, tui}
}

func (t *terminal) see(text string) {
	t.Helper()
	if err := t.tui.WaitText(t.Ctx, text); err != nil {
		t.Fatal(err)
	}
}

// shows reports whether the screen shows text within two seconds.
func (t *terminal) shows(text string) bool {
	short, cancel := context.WithTimeout(t.Ctx, 2*time.Second)
	defer cancel()
	return t.tui.WaitText(short, text) == nil
}

func (t *terminal) press(keys ...agentrig.Key) {
	t.Helper()
	if err := t.tui.Press(keys...); err != nil {
		t.Fatal(err)
	}
}

// send sends a prompt whose turn runs a shell command.
func (t *terminal) send(word, command string) {
	t.Helper()
	t.submit(e2erig.Prompt(word, shell(command), "done "+word))
}

// submit pastes a prompt, so that Codex takes no part of it for a key, and sends it once it shows.
func (t *terminal) submit(prompt string) {
	t.Helper()
	t.press(agentrig.Key("\x1b[200~" + prompt + "\x1b[201~"))
	end := prompt[len(prompt)-12:]
	if _, err := t.tui.WaitFor(t.Ctx, func(screen string) bool {
		return strings.Contains(screen, end) || strings.Contains(screen, "[Pasted Content")
	}); err != nil {
		t.Fatal(err)
	}
	t.press(agentrig.Enter)
}

// trustHooks trusts all hooks when Codex asks.
func (t *terminal) trustHooks() {
	t.Helper()
	t.see("hooks are new or changed")
	for !strings.Contains(t.tui.Screen(), "› 2. Trust all") { // the first keys may be lost
		t.press(agentrig.Down)
		t.shows("› 2. Trust all") // else press again
	}
	t.press(agentrig.Enter)
}

func shell(command string) map[string]any {
	return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": command}}
}
