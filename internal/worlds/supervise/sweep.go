package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// KillWith kills the processes that were started with one of these variables, each NAME=VALUE, in their
// environment. A process that leaves its group keeps its environment. On systems without /proc, KillWith does
// nothing.
func KillWith(variables ...string) {
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err == nil && pid != os.Getpid() && hasVariable(pid, variables) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
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
