package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// terminalChat is segno chat under a terminal.
type terminalChat struct {
	*testing.T
	*agentrig.TUI
	ctx context.Context
}

func chatRig(t *testing.T) *agentrig.Rig {
	t.Helper()
	bin, err := exec.LookPath("segno")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rig := &agentrig.Rig{Bin: bin, Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "project"), Flags: []string{"chat"},
		Vars: map[string]string{"XDG_DATA_HOME": filepath.Join(dir, "data"), "GORACE": "atexit_sleep_ms=0"}}
	for _, d := range []string{rig.Home, rig.Project} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return rig
}

func startChat(t *testing.T, rig *agentrig.Rig, args ...string) *terminalChat {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	tui, err := rig.StartTUI(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tui.Kill() }) // it may have ended
	return &terminalChat{t, tui, ctx}
}

// sees waits until the screen shows the texts in this order.
func (c *terminalChat) sees(texts ...string) {
	c.Helper()
	_, err := c.WaitFor(c.ctx, func(screen string) bool {
		for _, text := range texts {
			_, rest, found := strings.Cut(screen, text)
			if !found {
				return false
			}
			screen = rest
		}
		return true
	})
	if err != nil {
		c.Fatalf("waiting for %q: %v", texts, err)
	}
}

// line types a line and sends it.
func (c *terminalChat) line(text string) {
	c.Helper()
	if err := c.Press(agentrig.Key(text)); err != nil {
		c.Fatal(err)
	}
	c.sees("> " + text)
	c.press(agentrig.Enter)
}

func (c *terminalChat) press(keys ...agentrig.Key) {
	c.Helper()
	if err := c.Press(keys...); err != nil {
		c.Fatal(err)
	}
}

// ends waits until the program has ended well.
func (c *terminalChat) ends() {
	c.Helper()
	if code, err := c.Wait(c.ctx); err != nil || code != 0 {
		c.Fatalf("it ended with %d, %v; its last screen:\n%s", code, err, c.Screen())
	}
}

// TestChatAtATerminal chats, answers a question with an edit, undoes a turn, leaves while a
// question is open, and finds the same state afterwards.
func TestChatAtATerminal(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	rig := chatRig(t)
	ledger := filepath.Join(rig.Project, "ledger")
	c := startChat(t, rig, "--session", "my-project")
	c.sees("New session my-project", "> a prompt", "session my-project", "offline/plain", "head new")
	c.line("write a.txt: hello")
	c.sees("wrote a.txt", "> a prompt", "step 2")
	c.line("run echo one >> ledger")
	c.sees("Run this command?", "command: echo one >> ledger", "[a]pprove")
	c.press("e", agentrig.Enter)
	c.sees("the arguments; enter sends")
	c.press(agentrig.Down, "\x05", agentrig.Left) // the end of the command's line, before the quote
	for range "one >> ledger" {
		c.press(agentrig.Left)
	}
	c.press("edited ", agentrig.Enter)
	c.sees("approved with", "edited", "> a prompt", "step 4")
	if text, err := os.ReadFile(ledger); err != nil || string(text) != "edited one\n" {
		t.Errorf("the ledger has %q, %v; the screen\n%s", text, err, c.Screen())
	}
	c.line("/undo")
	c.sees("undone: now at turn 1", "> a prompt", "step 2")
	if _, err := os.Stat(ledger); err == nil {
		t.Error("the ledger is still there after undo")
	}
	c.line("run echo two >> ledger")
	c.sees("1 waiting")
	c.press(agentrig.CtrlC)
	c.sees("ctrl+c again to exit")
	c.press(agentrig.CtrlC)
	c.ends()

	c = startChat(t, rig, "--session", "my-project")
	c.sees("Restored session my-project: 6 messages, 0 todos, 1 file", "> write a.txt: hello", "Run this command?", "echo two >> ledger", "[a]pprove", "1 waiting")
	c.press("/sessions", agentrig.Enter) // a command works even while a question waits
	c.sees("/sessions\n", "my-project", "[a]pprove", "1 waiting")
	c.press("rest")
	c.sees("enter keeps your line", "> rest") // the question is open again, below the lines that appeared
	c.press(agentrig.Enter)
	c.sees("[a]pprove", "1 waiting")
	c.press("y")
	c.sees("▸[a]pprove", "enter confirms")
	c.press(agentrig.Enter)
	c.sees("approved", "> rest") // the line that was saved
	c.press(agentrig.CtrlC)
	c.sees("> a prompt")
	if text, err := os.ReadFile(ledger); err != nil || string(text) != "two\n" {
		t.Errorf("the ledger has %q, %v", text, err)
	}
	c.line("/quit")
	c.ends()
}

// TestChatAnswersLongerThanTheScreen checks that a long answer scrolls, and that the lines at the
// bottom are on the screen only once.
func TestChatAnswersLongerThanTheScreen(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes seconds
	}
	t.Parallel()
	rig := chatRig(t)
	rig.Vars["NO_COLOR"] = "1"
	c := startChat(t, rig)
	c.sees("New session chat-", "> a prompt")
	var text strings.Builder
	for i := range 120 {
		fmt.Fprintf(&text, `\nline %d of many`, i+1)
	}
	if err := c.Press(agentrig.Key("say begin" + text.String() + "\r")); err != nil {
		t.Fatal(err)
	}
	c.sees("line 119 of many\n", "line 120 of many\n", "> a prompt", "step 1")
	if shown := c.Screen(); strings.Count(shown, "> a prompt") != 1 || strings.Count(shown, "step 1") != 1 || strings.Count(shown, "line 100 of many\n") != 1 {
		t.Errorf("the screen shows\n%s", shown)
	}
	c.line("say after")
	c.sees("line 120 of many\n", "> say after", "after", "> a prompt", "step 2")
	c.press(agentrig.CtrlD)
	c.ends()
}

// TestATerminalThatClosesStopsTheCommand closes the terminal during a command. The program gets
// SIGHUP twice: the command ends, and its end is recorded.
func TestATerminalThatClosesStopsTheCommand(t *testing.T) {
	t.Parallel()
	rig := chatRig(t)
	pipe := filepath.Join(rig.Project, "alive")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChat(t, rig, "--session", "s", "-y")
	c.sees("> a prompt")
	c.line("run exec 9>alive; echo up >&9; sleep 610")
	command := openAlive(t, pipe)
	for range 2 { // it may have ended before the second
		if err := c.Signal(syscall.SIGHUP); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	if code, err := c.Wait(c.ctx); err != nil || code != cli.ExitCancelled {
		t.Errorf("it ended with %d, %v", code, err)
	}
	command.ends()
	c = startChat(t, rig, "--session", "s")
	c.sees("✗", "was interrupted", "> a prompt")
}

// TestAStoreThatIsGone deletes the store while a chat runs. The chat does nothing that it could not
// save, and keeps the typed text.
func TestAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	rig := chatRig(t)
	c := startChat(t, rig)
	c.sees("> a prompt")
	c.line("say hi")
	c.sees("hi", "> a prompt", "step 1")
	if err := os.RemoveAll(filepath.Join(rig.Vars["XDG_DATA_HOME"], "segno")); err != nil {
		t.Fatal(err)
	}
	c.line("write a.txt: one")
	c.sees("the store was moved or deleted", "> write a.txt: one")
	if _, err := os.Stat(filepath.Join(rig.Project, "a.txt")); err == nil {
		t.Error("the file was written")
	}
}
