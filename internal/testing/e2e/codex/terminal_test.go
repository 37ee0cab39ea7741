package codex_test

import (
	"context"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// terminal is Codex in a user's terminal.
type terminal struct {
	*e2erig.Stage
	tui *agentrig.TUI
}

// ready is the text on the screen while Codex accepts prompts.
const ready = "gpt-fake-1 default ·"

// open starts the terminal program and waits until it is ready. A version that asks the user to review hooks
// runs them without asking.
func open(s *e2erig.Stage, agent *agentrig.Codex, args ...string) *terminal {
	s.Helper()
	if agent.Version != agentrig.CodexOldest {
		args = append([]string{"--dangerously-bypass-hook-trust"}, args...)
	}
	t := start(s, agent, args...)
	t.see(ready)
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

// submit pastes a prompt, so that no part of it counts as a key, and sends it once it is visible.
func (t *terminal) submit(prompt string) {
	t.Helper()
	t.press(agentrig.Key("\x1b[200~" + prompt + "\x1b[201~"))
	withoutSpace := func(text string) string { return strings.Join(strings.Fields(text), "") } // a line may end within the text
	end := withoutSpace(prompt[len(prompt)-12:])
	if _, err := t.tui.WaitFor(t.Ctx, func(screen string) bool {
		return strings.Contains(withoutSpace(screen), end) || strings.Contains(screen, "[Pasted Content")
	}); err != nil {
		t.Fatal(err)
	}
	t.press(agentrig.Enter)
}

// startAndTrustHooks starts the terminal program and trusts all hooks when Codex asks. Codex drops keys that
// arrive before its question is ready. If that takes a second, for example on a busy machine, Codex ends with an
// error (seen with 0.169.0), and a user would start it again.
func startAndTrustHooks(s *e2erig.Stage, agent *agentrig.Codex) *terminal {
	s.Helper()
	for {
		t := start(s, agent)
		if err := t.trustHooks(); err == nil {
			return t
		} else if !strings.Contains(t.tui.Screen(), "timed out discarding buffered terminal input") {
			s.Fatal(err)
		}
	}
}

func (t *terminal) trustHooks() error {
	const first, chosen = "8 hooks are new or changed", "› 2. Trust all"
	if err := t.tui.WaitText(t.Ctx, first); err != nil {
		return err
	}
	for !strings.Contains(t.tui.Screen(), chosen) { // the first keys may be lost
		if err := t.tui.Press(agentrig.Down); err != nil {
			return err
		}
		t.shows(chosen) // if not, press again
	}
	if err := t.tui.Press(agentrig.Enter); err != nil {
		return err
	}
	return t.tui.WaitText(t.Ctx, ready)
}

func shell(command string) map[string]any {
	return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": command}}
}
