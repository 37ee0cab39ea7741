package agentrig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SystemProcess is a process of this machine. The functions of this file need Linux.
type SystemProcess struct {
	State         string
	Parent, Group int
	dir           string // below /proc
}

// SystemProcesses returns the ids of the processes that want accepts.
func SystemProcesses(t testing.TB, want func(SystemProcess) bool) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		p := SystemProcess{dir: filepath.Dir(name)}
		_, rest, _ := strings.Cut(string(data), ") ")
		if _, err := fmt.Sscan(rest, &p.State, &p.Parent, &p.Group); err != nil {
			t.Fatal(err)
		}
		if want(p) {
			pid, err := strconv.Atoi(filepath.Base(p.dir))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// TempDir returns a directory for rigs. At the end of the test, the processes with a home in it are killed before it is removed:
// tools of an agent that was killed, and helpers that an agent leaves for a moment when it exits, which still write there.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { KillAll(t, dir) })
	return dir
}

// KillAll kills the processes with a home in dir and returns when they have ended.
func KillAll(t testing.TB, dir string) {
	t.Helper()
	const most = 30 * time.Second // the kernel may not end a process sooner
	for deadline := time.Now().Add(most); ; {
		left := SystemProcesses(t, func(p SystemProcess) bool {
			env, err := os.ReadFile(filepath.Join(p.dir, "environ")) // empty for a zombie
			return err == nil && strings.Contains("\x00"+string(env), "\x00HOME="+dir)
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the processes %v are still there %v after they were killed", left, most)
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
