package proxy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/proc"
)

// member is one running process: fields of /proc/<pid>/stat.
type member struct{ pid, parent, group int }

// runningProcesses lists all running processes. The list is empty on systems without /proc.
func runningProcesses() []member {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var all []member
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || len(f) < 3 || f[0] == "Z" {
			continue
		}
		m := member{pid: pid}
		m.parent, _ = strconv.Atoi(f[1])
		m.group, _ = strconv.Atoi(f[2])
		all = append(all, m)
	}
	return all
}

// killGroup kills a process group and its members' descendants in other groups. It looks the
// descendants up first: once their parents are dead, their origin is unknown.
func killGroup(group int) {
	all := runningProcesses()
	kill := map[int]bool{}
	for _, m := range all {
		kill[m.pid] = m.group == group
	}
	var descendants []int
	for found := true; found; {
		found = false
		for _, m := range all {
			if !kill[m.pid] && kill[m.parent] {
				kill[m.pid], found = true, true
				descendants = append(descendants, m.pid)
			}
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	for _, pid := range descendants {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// groupLives reports whether the process group that pid led still has members. The system
// gives no new process the number of a group that exists.
func groupLives(pid int, start string) bool {
	if now := proc.Start(pid); now != "" && now != start {
		return false
	}
	return slices.ContainsFunc(runningProcesses(), func(m member) bool { return m.group == pid })
}

// waitGroup waits until a group that was killed has ended, for five seconds at most.
func waitGroup(ctx context.Context, group int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for groupLives(group, proc.Start(group)) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
