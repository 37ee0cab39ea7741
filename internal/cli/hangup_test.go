package cli_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// alive is the end of a pipe that a command and its children hold open as descriptor 9.
type alive struct {
	*testing.T
	pipe *os.File
}

// openAlive opens a pipe when a command has opened it and written that it is up.
func openAlive(t *testing.T, name string) alive {
	t.Helper()
	pipe, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	if _, err := io.ReadFull(pipe, make([]byte, len("up\n"))); err != nil {
		t.Fatal(err)
	}
	return alive{t, pipe}
}

// ends waits until the command and its children have ended, which may be a moment after the end of the program that killed them.
func (a alive) ends() {
	a.Helper()
	err := a.pipe.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var rest []byte
	if err == nil {
		rest, err = io.ReadAll(a.pipe)
	}
	if err != nil || len(rest) > 0 {
		a.Errorf("the command goes on: %q, %v", rest, err)
	}
}

// TestAgentEndsWithItsTerminal hangs up the terminal of an agent, alone and behind the proxy, while
// its command runs. Both end.
func TestAgentEndsWithItsTerminal(t *testing.T) {
	eachAgentRuns(t, "exec 9>alive; echo up >&9; exec sleep 610", func(e *editor) error {
		if err := syscall.Kill(e.PID(), syscall.SIGHUP); err != nil {
			return err
		}
		_, err := e.Wait(e.ctx)
		return err
	})
}

// TestAgentThatIsKilledTakesItsCommandAlong kills an agent, alone and under the proxy, while its
// command runs. The command and its background process end.
func TestAgentThatIsKilledTakesItsCommandAlong(t *testing.T) {
	eachAgentRuns(t, "exec 9>alive; sleep 610 & echo up >&9; sleep 610", func(e *editor) error {
		return syscall.Kill(e.PID(), syscall.SIGKILL)
	})
}

// eachAgentRuns lets an agent, alone and behind the proxy, run a command with the pipe alive, ends the agent, and waits for the end of the
// command.
func eachAgentRuns(t *testing.T, line string, end func(e *editor) error) {
	for name, command := range map[string][]string{"alone": {"agent"}, "behind the proxy": {"acp", "--", "segno", "agent"}} {
		t.Run(name, func(t *testing.T) {
			e := newEditor(t, command...)
			id := e.open("new", "")
			e.pipes("alive")
			if _, err := e.Prompt(id, "run "+line); err != nil {
				t.Fatal(err)
			}
			a := openAlive(t, filepath.Join(e.rig.Project, "alive"))
			if err := end(e); err != nil {
				t.Fatal(err)
			}
			a.ends()
		})
	}
}
