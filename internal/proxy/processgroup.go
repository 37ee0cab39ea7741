package proxy

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/proc"
)

// member is one process and its group.
type member struct{ pid, group int }

// processes lists all processes. The list is empty on systems without /proc.
func processes() (all []member) {
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		if group, err := syscall.Getpgid(pid); err == nil { // an error means that it has ended
			all = append(all, member{pid, group})
		}
	}
	return all
}

// killGroup kills a process group and its members' descendants in other groups. It finds the
// descendants first: once their parents are dead, their origin is unknown.
func killGroup(group int) {
	all, parents := processes(), map[int]int{}
	kill := map[int]bool{}
	for _, m := range all {
		kill[m.pid] = m.group == group
		parents[m.pid] = proc.Parent(m.pid)
	}
	var descendants []int
	for found := true; found; {
		found = false
		for _, m := range all {
			if !kill[m.pid] && kill[parents[m.pid]] {
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

// groupLives reports whether the process group that pid led still has members, except
// zombies. The system gives no new process the number of a group that exists.
func groupLives(pid int, start string) bool {
	if now := proc.Start(pid); now != "" && now != start {
		return false
	}
	return slices.ContainsFunc(processes(), func(m member) bool { return m.group == pid && proc.Start(m.pid) != "" })
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
