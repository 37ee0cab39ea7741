package e2erig

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

// Process is a process of this machine. The functions of this file need Linux.
type Process struct {
	State         string
	Parent, Group int
	dir           string // below /proc
}

// ChildrenOf returns the ids of a process's children.
func ChildrenOf(t *testing.T, parent int) []int {
	t.Helper()
	return Processes(t, func(p Process) bool { return p.Parent == parent })
}

// Processes returns the ids of the processes that want accepts.
func Processes(t *testing.T, want func(Process) bool) (pids []int) {
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
		p := Process{dir: filepath.Dir(name)}
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

// sweep kills the processes that the scenario started and left running, such as the
// tools of a killed agent. It identifies them by their HOME.
func (s *Stage) sweep() {
	const most = 30 * time.Second // the kernel may not end a process sooner
	for deadline := time.Now().Add(most); ; {
		left := Processes(s.T, func(p Process) bool {
			env, err := os.ReadFile(filepath.Join(p.dir, "environ")) // empty for a zombie
			return err == nil && strings.Contains("\x00"+string(env), "\x00HOME="+s.Rig.Home+"\x00")
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Errorf("the processes %v are still there %v after they were killed", left, most)
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
