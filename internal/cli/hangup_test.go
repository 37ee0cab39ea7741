package cli_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAgentEndsWithItsTerminal hangs up the terminal of an agent, alone and behind the proxy, while
// its command runs. Both end.
func TestAgentEndsWithItsTerminal(t *testing.T) {
	for name, command := range map[string][]string{"alone": {"agent"}, "behind the proxy": {"acp", "--", "segno", "agent"}} {
		t.Run(name, func(t *testing.T) {
			e := newEditor(t, command...)
			id := e.open("new", "")
			e.pipes("begun")
			if _, err := e.Prompt(id, "run echo $$ > pid; echo > begun; exec sleep 610"); err != nil {
				t.Fatal(err)
			}
			e.await("begun")
			pid, err := strconv.Atoi(strings.TrimSpace(e.file("pid")))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(e.PID(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Wait(e.ctx); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the command goes on: %v", err)
			}
		})
	}
}

// TestAgentThatIsKilledTakesItsCommandAlong kills an agent, alone and under the proxy, while its
// command runs. The command and its background process hold a FIFO open. A reader of the FIFO gets
// EOF when the last of them ends.
func TestAgentThatIsKilledTakesItsCommandAlong(t *testing.T) {
	for name, command := range map[string][]string{"alone": {"agent"}, "behind the proxy": {"acp", "--", "segno", "agent"}} {
		t.Run(name, func(t *testing.T) {
			e := newEditor(t, command...)
			id := e.open("new", "")
			e.pipes("alive")
			if _, err := e.Prompt(id, "run exec 9>alive; sleep 610 & echo up >&9; sleep 610"); err != nil {
				t.Fatal(err)
			}
			alive, err := os.Open(filepath.Join(e.rig.Project, "alive"))
			if err != nil {
				t.Fatal(err)
			}
			defer alive.Close()
			if _, err := io.ReadFull(alive, make([]byte, len("up\n"))); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(e.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(alive); err != nil || len(rest) > 0 {
				t.Errorf("the command goes on: %q, %v", rest, err)
			}
		})
	}
}
