package cli_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/cli"
)

// blocked is a store with a FIFO among the open turns. A process that reads the open turns blocks.
type blocked struct {
	*testing.T
	ctx  context.Context
	dir  string
	fifo string
}

func newBlocked(t *testing.T) *blocked {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &blocked{T: t, ctx: ctx, dir: dir, fifo: filepath.Join(dir, "store", "turns", "x.jsonl")}
	if err := os.MkdirAll(filepath.Join(dir, "project"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := b.command("segno", "save").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Dir(b.fifo), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(b.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *blocked) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.ctx, name, append([]string{"--store", filepath.Join(b.dir, "store")}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(b.dir, "project"), append(os.Environ(), "HOME="+filepath.Join(b.dir, "home"))
	return cmd
}

// start starts a command and returns once the command is blocked: it has opened the FIFO, to which
// no process writes.
func (b *blocked) start(cmd *exec.Cmd) {
	b.Helper()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.hold(func() error {
		w, err := os.OpenFile(b.fifo, os.O_WRONLY, 0)
		if err == nil {
			b.Cleanup(func() { w.Close() })
		}
		return err
	})
}

// hold waits for an event of the command, at most until b.ctx is done.
func (b *blocked) hold(event func() error) {
	b.Helper()
	came := make(chan error, 1)
	go func() { came <- event() }()
	select {
	case err := <-came:
		if err != nil {
			b.Fatal(err)
		}
	case <-b.ctx.Done():
		b.Fatal("the command never came to the FIFO")
	}
}

// ended checks that a command ends before b.ctx is done, with an exit code.
func (b *blocked) ended(cmd *exec.Cmd, code int) {
	b.Helper()
	err := cmd.Wait()
	if b.ctx.Err() != nil {
		b.Fatal("the command did not end")
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		b.Errorf("exit code %d, want %d: %v", got, code, err)
	}
}

const blockedEvent = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_use_id":"t","tool_input":{}}`

// TestASignalEndsWhatIsBlocked sends SIGTERM to commands and hooks that are blocked in a
// system call. They end without a second signal.
func TestASignalEndsWhatIsBlocked(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, c := range map[string]struct {
		command []string
		code    int
	}{
		"a command":       {[]string{"segno", "status"}, cli.ExitCancelled},
		"a move":          {[]string{"segno", "undo", "-y"}, cli.ExitCancelled},
		"segno hook":      {[]string{"segno", "hook", "claude"}, cli.ExitOK},
		"segno-hook":      {[]string{"segno-hook", "hook", "claude"}, cli.ExitOK},
		"a slow verb too": {[]string{"segno", "doctor"}, cli.ExitCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBlocked(t)
			cmd := b.command(c.command[0], c.command[1:]...)
			cmd.Stdin = strings.NewReader(blockedEvent)
			b.start(cmd)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			b.ended(cmd, c.code)
		})
	}
}

// TestASignalEndsAHookWhoseEventNeverCame keeps a hook's standard input open and writes no event.
func TestASignalEndsAHookWhoseEventNeverCame(t *testing.T) {
	for _, name := range []string{"segno", "segno-hook"} {
		t.Run(name, func(t *testing.T) {
			b := newBlocked(t)
			cmd := b.command(name, "hook", "claude")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// More than the buffer of a pipe, so the write returns only after the hook has begun to
			// read.
			b.hold(func() error { _, err := io.WriteString(in, strings.Repeat(" ", 1<<20)); return err })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			b.ended(cmd, cli.ExitOK)
		})
	}
}

// TestTheDeadlineEndsAHookThatIsBlocked lets hooks run into their deadline. Their
// log then contains the reason.
func TestTheDeadlineEndsAHookThatIsBlocked(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for _, name := range []string{"segno", "segno-hook"} {
		t.Run(name, func(t *testing.T) {
			b := newBlocked(t)
			cmd := b.command(name, "hook", "claude")
			cmd.Stdin = strings.NewReader(blockedEvent)
			b.start(cmd)
			b.ended(cmd, cli.ExitOK)
			log, err := os.ReadFile(filepath.Join(b.dir, "store", "hook.log"))
			if err != nil || !strings.Contains(string(log), "deadline") {
				t.Errorf("the log holds %q, %v", log, err)
			}
		})
	}
}

// TestATranscriptThatIsAFIFOIsNone ends a turn whose transcript is a FIFO.
func TestATranscriptThatIsAFIFOIsNone(t *testing.T) {
	b := newBlocked(t)
	if err := os.Remove(b.fifo); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(b.dir, "home", ".claude", "projects", "p")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"UserPromptSubmit", "Stop", "UserPromptSubmit"} {
		cmd := b.command("segno", "hook", "claude")
		cmd.Env = append(cmd.Env, "CLAUDE_CONFIG_DIR="+filepath.Join(b.dir, "home", ".claude"))
		cmd.Stdin = strings.NewReader(`{"hook_event_name":"` + event + `","session_id":"s","prompt":"p","cwd":"` + cmd.Dir + `","transcript_path":"` + path + `"}`)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", event, err, out)
		}
	}
	if log, err := os.ReadFile(filepath.Join(b.dir, "store", "hook.log")); err == nil {
		t.Errorf("the log holds %s", log)
	}
	// undo reads the transcript to see whether the open turn was interrupted
	cmd := b.command("segno", "undo", "-y")
	cmd.Env = append(cmd.Env, "CLAUDE_CONFIG_DIR="+filepath.Join(b.dir, "home", ".claude"))
	if out, err := cmd.CombinedOutput(); b.ctx.Err() != nil {
		t.Errorf("undo: %v: %s", err, out)
	}
}
