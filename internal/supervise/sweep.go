package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// KillWith kills the processes that have one of these variables, each NAME=VALUE, in the environment they were
// started with. A process that leaves its group keeps it. Systems without /proc have no such list, and
// KillWith does nothing there.
func KillWith(variables ...string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well-formed
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err != nil { // it ended, or belongs to another user
			continue
		}
		has := slices.ContainsFunc(variables, func(v string) bool {
			return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+v+"\x00"))
		})
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if has && err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
