package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/agentrig"
)

// waitingAgent replaces Claude Code by a program whose turns each end when the test writes a line. A turn prints text
// that could control a terminal.
//
// A turn that opens the pipe before the writer of the turn before has closed it reads its end, and waits again.
const waitingAgent = `#!/bin/sh
until read -r _ < "$HOME/../../../../../go"; do :; done
printf 'evil\033[2J\033]0;title\007\342\200\256 turn\n'
echo turn >> turns
`

// newWaiting makes an experiment with one agent that waits in each turn. release lets n turns end.
func newWaiting(t *testing.T) (x *experiment, release func(n int)) {
	x = newExperiment(t, "world = \"company\"\ngenerations = 1\nticks = 4\n[[agents]]\nname = \"Cy\"\nkind = \"claude\"\n[[agents]]\nname = \"Ada\"\n", "0.001")
	x.replaceClaude(waitingAgent)
	pipe := filepath.Join(x.dir, "go")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return x, func(n int) {
		t.Helper()
		for range n {
			if err := os.WriteFile(pipe, []byte("go\n"), 0o600); err != nil { // opening the pipe waits for a reader
				t.Fatal(err)
			}
		}
	}
}

// TestViewOfGenerations watches a run on a terminal, resizes it, and quits in the middle of a turn. The same command
// continues from the checkpoint.
func TestViewOfGenerations(t *testing.T) {
	t.Parallel()
	x, release := newWaiting(t)
	rig := &agentrig.Rig{Bin: x.command().Path, Home: filepath.Join(x.dir, "user"), Project: x.dir, Flags: []string{"generations", "run", x.file},
		Vars: map[string]string{"NO_COLOR": "1"}}
	for _, v := range x.env {
		name, value, _ := strings.Cut(v, "=")
		rig.Vars[name] = value
	}
	c := startChat(t, rig)
	c.sees("village │ running │ generation 1 of 1 │ tick 0 of 4", "● Cy   works", "○ Ada  idle")
	release(1)
	c.sees("tick 1 of 4", "next checkpoint", "gen001-t000001.ckpt", "● Cy   works", `evil\x1b[2J\x1b]0;title\x07\u202e turn`, "q stops with a checkpoint")
	if err := c.Resize(34, 9); err != nil {
		t.Fatal(err)
	}
	c.sees("village │ running", "● Cy   works", " q stops with a checkpoint; the s…")
	c.press("q")
	c.sees("village │ stopping", "making a checkpoint")
	release(1)
	if code, err := c.Wait(c.ctx); err != nil || code != cli.ExitCancelled {
		t.Errorf("it ended with %d, %v", code, err)
	}
	c.sees("generation 1: stopped")
	x.replaceClaude("#!/bin/sh\necho turn >> turns\n")
	if out := x.mustRun(); !strings.Contains(out, "generation 1, tick 2: begins with checkpoint:village-g001.failed-") {
		t.Errorf("the second command printed\n%s", out)
	}
	turns, err := os.ReadFile(filepath.Join(x.dir, "runs/village-g001/agents/Cy/workspace/turns"))
	if err != nil || string(turns) != strings.Repeat("turn\n", 4) {
		t.Errorf("the agent made the turns %q, %v", turns, err)
	}
}
