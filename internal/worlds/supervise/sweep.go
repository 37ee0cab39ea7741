package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// killTime is how long KillWith waits for processes to end.
const killTime = time.Second

// KillWith kills the processes that were started with one of these variables, each NAME=VALUE, in their
// environment, and returns when they have ended. A process that leaves its group keeps its environment. On systems
// without /proc, KillWith does nothing.
func KillWith(variables ...string) {
	for deadline := time.Now().Add(killTime); killOnce(variables) && time.Now().Before(deadline); time.Sleep(freezePoll) {
	}
}

// killOnce sends a signal to the processes of KillWith, and reports whether there are any. A dead one has no environment.
func killOnce(variables []string) (found bool) {
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err == nil && pid != os.Getpid() && hasVariable(pid, variables) {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return found
}

// hasVariable reports whether a process was started with one of these variables, each NAME=VALUE.
func hasVariable(pid int, variables []string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil { // the process has ended, or belongs to another user
		return false
	}
	return slices.ContainsFunc(variables, func(v string) bool {
		return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+v+"\x00"))
	})
}
