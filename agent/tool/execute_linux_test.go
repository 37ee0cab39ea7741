package tool_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/agent/tool"
)

func TestADaemonThatKeepsTheOutputIsNotWaitedFor(t *testing.T) {
	r, dir := shell(t, tool.ExecuteOptions{})
	r.wants("up\n(background processes of the command were stopped)\nexit code 0", "execute", "command",
		"setsid sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 1000' & until test -e pid; do :; done; sleep 1000 & echo up")
	pid, err := strconv.Atoi(strings.TrimSpace(readFile(t, filepath.Join(dir, "pid"))))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon has its own life, but: %v", err)
	}
}

// TestACommandHasNoTerminal checks that a command runs in a new session. It then cannot
// write to the terminal on which its agent asks questions.
func TestACommandHasNoTerminal(t *testing.T) {
	r, _ := shell(t, tool.ExecuteOptions{})
	r.wants("alone\nexit code 0", "execute", "command", `set -- $(cat /proc/$$/stat); test "$6" = $$ && test "$5" = $$ && echo alone`)
}
