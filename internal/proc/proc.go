// Package proc identifies running processes, finds their ancestors, and ends a blocked one.
package proc

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Alive reports whether process pid still runs. If the system can tell, it also checks that the
// process started at start; see [Start].
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

// Start returns a text that distinguishes a process from another one with the same pid. It is field
// 22 of /proc/<pid>/stat, the start in clock ticks since boot; see proc(5). It is "" if the field
// cannot be read or the process is a zombie.
func Start(pid int) string {
	fields := stat(pid)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// ticks is the number of clock ticks in a second, which Linux has fixed for programs; see USER_HZ in time(7).
const ticks = 100

// Age returns how long a process has run, to a hundredth of a second. It is 0 if the system does not show it.
func Age(pid int) time.Duration {
	start, err := strconv.ParseFloat(Start(pid), 64)
	if err != nil {
		return 0
	}
	data, _ := os.ReadFile("/proc/uptime") // an error shows below
	since, _, _ := strings.Cut(string(data), " ")
	up, err := strconv.ParseFloat(since, 64)
	if err != nil {
		return 0
	}
	return max(time.Duration((up-start/ticks)*float64(time.Second)), time.Nanosecond)
}

// maxAncestors is the number of processes that Ancestors yields. There may be wrappers and shells
// between a program and the process that started it.
const maxAncestors = 8

// Ancestors yields a process, its parent, the parent's parent and so on. It yields at most eight processes, and not
// init.
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
	ppid, _ := strconv.Atoi(fields[1]) // 0 is not a process
	return ppid
}

// stat returns the fields of /proc/<pid>/stat from the third on. It skips the second, the command's
// name, which may contain any characters.
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

// WithVariable lists the processes that were started with a variable in their environment. The list is empty on systems
// without /proc, and lacks zombies and the processes of other users.
func WithVariable(name, value string) iter.Seq[int] {
	return func(yield func(int) bool) {
		names, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well-formed
		for _, file := range names {
			data, _ := os.ReadFile(file) // an error means that it has ended
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if slices.Contains(strings.Split(string(data), "\x00"), name+"="+value) && !yield(pid) {
				return
			}
		}
	}
}
