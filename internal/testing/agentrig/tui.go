package agentrig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
)

// Key is the input that a terminal sends for a key.
type Key string

// The keys that control the agent's screens.
const (
	Enter     Key = "\r"
	Esc       Key = "\x1b"
	Up        Key = "\x1b[A"
	Down      Key = "\x1b[B"
	Right     Key = "\x1b[C"
	Left      Key = "\x1b[D"
	Tab       Key = "\t"
	Backspace Key = "\x7f"
	CtrlC     Key = "\x03"
	CtrlD     Key = "\x04"
	CtrlU     Key = "\x15"
)

const (
	tuiCols = 160
	tuiRows = 50
)

// TUI is the agent under a terminal.
type TUI struct {
	*Process
	tty     *os.File
	replies map[string]string

	mu      sync.Mutex
	screen  *screen
	ended   bool
	changed chan struct{} // closed and replaced at every output
}

// TUI starts the terminal program and returns when it is ready for a prompt.
func (r *Rig) TUI(ctx context.Context, args ...string) (*TUI, error) {
	t, err := r.StartTUI(ctx, args...)
	if err != nil {
		return nil, err
	}
	if err := t.Ready(ctx); err != nil {
		_ = t.Kill() // the first error matters more
		return nil, err
	}
	return t, nil
}

// StartTUI starts the terminal program and returns at once.
func (r *Rig) StartTUI(ctx context.Context, args ...string) (*TUI, error) {
	return startTUI(r.command(ctx, slices.Concat(r.Flags, args)...), nil)
}

// startTUI starts a program in a terminal. replies maps the program's requests to the terminal's
// replies.
func startTUI(cmd *exec.Cmd, replies map[string]string) (*TUI, error) {
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: tuiRows, Cols: tuiCols}) // starts a new session, and so a process group
	if err != nil {
		return nil, fmt.Errorf("agentrig: starting the agent in a terminal: %w", err)
	}
	t := &TUI{Process: watch(cmd), tty: tty, screen: newScreen(tuiCols, tuiRows), changed: make(chan struct{}), replies: replies}
	go t.read()
	return t, nil
}

func (t *TUI) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := t.tty.Read(buf)
		for request, reply := range t.replies {
			if bytes.Contains(buf[:n], []byte(request)) {
				_, _ = t.tty.WriteString(reply) // a program that has ended needs no reply
			}
		}
		t.mu.Lock()
		t.screen.write(buf[:n])
		t.ended = err != nil
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			t.tty.Close()
			return
		}
	}
}

// Resize makes the terminal larger or smaller. The program then draws everything again.
func (t *TUI) Resize(cols, rows int) error {
	t.mu.Lock()
	t.screen = newScreen(cols, rows)
	t.mu.Unlock()
	return pty.Setsize(t.tty, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)})
}

// Screen returns the visible text of the terminal.
func (t *TUI) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}

// waitTime is the longest time of one wait. A screen that does not appear in this time will not
// appear at all. The test must fail while the screen still shows the reason.
const waitTime = 2 * time.Minute

// WaitFor returns the first screen that ok accepts. It gives up after two minutes; the
// error shows the screen.
func (t *TUI) WaitFor(ctx context.Context, ok func(screen string) bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		t.mu.Lock()
		shown, ended, changed := t.screen.String(), t.ended, t.changed
		t.mu.Unlock()
		if ok(shown) {
			return shown, nil
		}
		if ended {
			return shown, fmt.Errorf("agentrig: the agent ended; its last screen:\n%s", shown)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return shown, fmt.Errorf("agentrig: waiting for a screen: %w; it shows:\n%s", ctx.Err(), shown)
		}
	}
}

// WaitText waits until the screen shows text.
func (t *TUI) WaitText(ctx context.Context, text string) error {
	_, err := t.WaitFor(ctx, func(s string) bool { return strings.Contains(s, text) })
	return err
}

// Ready waits until the agent accepts a prompt.
func (t *TUI) Ready(ctx context.Context) error {
	_, err := t.WaitFor(ctx, ready)
	return err
}

// Type enters text without sending it, and waits until the text is visible. It enters the text as
// a paste, so that no part of it counts as a key.
func (t *TUI) Type(ctx context.Context, text string) error {
	if err := t.write(text); err != nil {
		return err
	}
	_, err := t.WaitFor(ctx, func(s string) bool { return entered(s, text) })
	return err
}

// Prompt types a prompt and sends it.
func (t *TUI) Prompt(ctx context.Context, text string) error {
	if err := t.Type(ctx, text); err != nil {
		return err
	}
	return t.Press(Enter)
}

// Turn sends a prompt and waits until the screen shows answer as the agent's text and the turn is
// over.
func (t *TUI) Turn(ctx context.Context, prompt, answer string) error {
	if err := t.Prompt(ctx, prompt); err != nil {
		return err
	}
	_, err := t.WaitFor(ctx, func(s string) bool { return answered(s, prompt, answer) })
	return err
}

// Clear empties the input line, which an interrupt or a rewind fills with the old
// prompt.
func (t *TUI) Clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		shown := t.Screen()
		if !filled(shown) {
			return nil
		}
		was := inputLine(shown)
		if err := t.pressUntil(ctx, CtrlU, func(s string) bool { return inputLine(s) != was }); err != nil {
			return err
		}
	}
}

// Interrupt waits until the agent works, presses Esc, and waits until the screen shows the
// interruption. If the agent had shown nothing yet, it puts the prompt back into the input line
// instead, as if there had been no turn.
func (t *TUI) Interrupt(ctx context.Context) error {
	shown, err := t.WaitFor(ctx, working)
	if err != nil {
		return err
	}
	prompt, _ := newestTurn(shown)
	return t.pressUntil(ctx, Esc, func(s string) bool {
		if working(s) {
			return false
		}
		last, below := newestTurn(s)
		return last == prompt && strings.Contains(below, "Interrupted") || filled(s)
	})
}

// Press sends keys, each as one write, because the agent treats the bytes of one read as one event.
// After Esc, wait for its effect before the next key.
func (t *TUI) Press(keys ...Key) error {
	for _, k := range keys {
		if err := t.write(string(k)); err != nil {
			return err
		}
	}
	return nil
}

// patience is the time that a key may take to have a visible effect. A screen may be visible a
// moment before it reads keys, and earlier keys are lost.
const patience = 3 * time.Second

// pressUntil presses a key, repeatedly if necessary, until ok accepts the screen.
func (t *TUI) pressUntil(ctx context.Context, k Key, ok func(screen string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		if err := t.Press(k); err != nil {
			return err
		}
		short, stop := context.WithTimeout(ctx, patience)
		_, err := t.WaitFor(short, ok)
		stop()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// write sends the agent input. If the agent does not read, write blocks once the terminal's
// buffer is full.
func (t *TUI) write(s string) error {
	_ = t.tty.SetWriteDeadline(time.Now().Add(waitTime)) // a system without deadlines waits
	if _, err := t.tty.WriteString(s); err != nil {
		return fmt.Errorf("agentrig: writing to the terminal: %w; it shows:\n%s", err, t.Screen())
	}
	return nil
}

// Compact sends /compact, and waits until the agent reports the compaction and accepts a prompt
// again.
func (t *TUI) Compact(ctx context.Context) error {
	const command = "/compact"
	if err := t.Prompt(ctx, command); err != nil {
		return err
	}
	_, err := t.WaitFor(ctx, func(s string) bool {
		prompt, below := newestTurn(s)
		return strings.TrimSpace(prompt) == command && strings.Contains(below, "Compacted") && ready(s) && !working(s) && !filled(s)
	})
	return err
}
