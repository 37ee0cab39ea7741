// Package proc tells running processes apart.
package proc

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Alive reports whether process pid still runs and, where the system can tell, is
// the one that started at start. See [Start].
func Alive(pid int, start string) bool {
	if pid <= 0 {
		return false
	}
	if start != "" {
		return Start(pid) == start
	}
	err := unix.Kill(pid, 0)
	return err == nil || err == unix.EPERM
}

// Start returns something that tells a process from another with the same
// pid: field 22 of /proc/<pid>/stat, its start in clock ticks since boot; see
// proc(5). It is "" where that cannot be read or the process is a zombie.
func Start(pid int) string {
	fields := stat(pid)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// maxAncestors is how many processes Ancestors yields. Wrappers and shells may stand between a
// program and the process that started it.
const maxAncestors = 8

// Ancestors yields a process, its parent, the parent of that one, and so on, at most eight and not init.
func Ancestors(pid int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for depth := 0; pid > 1 && depth < maxAncestors && yield(pid); depth++ {
			pid = Parent(pid)
		}
	}
}

// Parent returns the pid of a process's parent, or 0.
func Parent(pid int) int {
	fields := stat(pid)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1]) // 0 is no process
	return ppid
}

// stat returns the fields of /proc/<pid>/stat from the third on: the second, the
// command's name, may hold anything.
func stat(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return nil
	}
	return strings.Fields(string(data[i+1:]))
}

// Command returns the name of a process's command, or "".
func Command(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
