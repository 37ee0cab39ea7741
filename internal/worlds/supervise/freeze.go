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

const (
	freezeTime = time.Second // how long Freeze waits for processes to stop
	freezePoll = time.Millisecond
)

// Freeze stops all processes of these groups. It also stops the processes that left the groups and have one of
// the variables in their environment, as for [KillWith]. When Freeze returns, none of them runs. The watchers
// of the groups continue, so the groups still end if their owner is killed meanwhile. The caller must call
// thaw, which continues the processes.
//
// On a system without /proc, Freeze stops the groups with their watchers.
func Freeze(groups []*Group, variables ...string) (thaw func()) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		for _, g := range groups {
			g.Signal(syscall.SIGSTOP)
		}
		return func() {
			for _, g := range groups {
				g.Signal(syscall.SIGCONT)
			}
		}
	}
	frozen := map[int]bool{}
	poll := time.NewTicker(freezePoll)
	defer poll.Stop()
	for deadline := time.Now().Add(freezeTime); time.Now().Before(deadline); <-poll.C { // a running one may start another
		running := runningIn(groups, variables)
		if len(running) == 0 {
			break
		}
		for _, pid := range running {
			frozen[pid] = true
			_ = syscall.Kill(pid, syscall.SIGSTOP) // an error means that it has ended
		}
	}
	return func() {
		for pid := range frozen { // a stopped process still exists, unless another process killed it
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// status is a line of /proc/PID/stat.
type status struct {
	state         byte
	parent, group int
}

func readStatus(pid int) (s status, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	_, err = fmt.Sscanf(string(data[bytes.LastIndexByte(data, ')')+1:]), " %c %d %d", &s.state, &s.parent, &s.group)
	return s, err == nil
}

// isStopped reports whether the process does not run: it is stopped, traced, or dead.
func (s status) isStopped() bool { return bytes.IndexByte([]byte("TtZX"), s.state) >= 0 }

// runningIn returns the processes that Freeze has to stop.
func runningIn(groups []*Group, variables []string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == os.Getpid() {
			continue
		}
		s, ok := readStatus(pid)
		if !ok || s.isStopped() {
			continue
		}
		isMember := slices.ContainsFunc(groups, func(g *Group) bool { return g.PID() == s.group })
		if (isMember || hasVariable(pid, variables)) && !isWatcher(pid, s) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isWatcher reports whether a process is one of the shells that [Start] adds to a group: the leader, or its
// child that runs the same script.
func isWatcher(pid int, s status) bool {
	if pid != s.group && s.parent != s.group {
		return false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.HasPrefix(line, []byte("sh\x00-c\x00"+script+"\x00"))
}
