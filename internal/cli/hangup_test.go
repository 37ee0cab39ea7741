package cli

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAgentEndsWithItsTerminal hangs up on an agent, alone and behind the proxy, while its
// command runs: both end.
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
