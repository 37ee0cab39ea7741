package proxy

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/proc"
)

// member is one living process, as /proc/<pid>/stat has it.
type member struct{ pid, parent, group int }

// members lists all living processes; none where there is no /proc.
func members() []member {
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

// killGroup ends a process group, and what its members started in groups of their
// own. Those are looked up first: once their parents are gone nobody knows whose
// they were.
func killGroup(group int) {
	var below []int
	all := members()
	ours := map[int]bool{}
	for _, m := range all {
		ours[m.pid] = m.group == group
	}
	for more := true; more; {
		more = false
		for _, m := range all {
			if !ours[m.pid] && ours[m.parent] {
				ours[m.pid], more = true, true
				below = append(below, m.pid)
			}
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// groupLives reports whether the process group that pid led still has members. A
// number is not given to a new process while a group has it.
func groupLives(pid int, start string) bool {
	if now := proc.Start(pid); now != "" && now != start {
		return false
	}
	for _, m := range members() {
		if m.group == pid {
			return true
		}
	}
	return false
}

// waitGroup waits until a group that was killed has gone.
func waitGroup(ctx context.Context, group int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(5 * time.Second)
	for groupLives(group, proc.Start(group)) {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-tick.C:
		}
	}
}
