package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Machine identifies this boot of this machine and this PID namespace: the id of the boot, a slash, and the namespace. It is ""
// if the system does not report them.
func Machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + namespace
}

// AliveOn reports whether the process pid that started at start runs on a machine that [Machine] named; "" is this one, in this
// PID namespace. isSeen is false if this process cannot see the processes there, for example those of another container.
func AliveOn(machine string, pid int, start string) (alive, isSeen bool) {
	here := Machine()
	boot, namespace, _ := strings.Cut(here, "/")
	switch {
	case machine == "" || machine == here:
		return Alive(pid, start), true
	case here == "":
		return false, false
	case !strings.HasPrefix(machine, boot+"/"):
		return false, true // it ran before the machine was started
	case namespace == firstNamespace:
		return aliveBelow(pid, start)
	}
	return false, false
}

// firstNamespace is the PID namespace that the kernel makes when it starts, which sees the processes of all others. Its number
// is PROC_PID_INIT_INO of include/linux/proc_ns.h.
const firstNamespace = "pid:[4026531836]"

// aliveBelow looks for a process that has the number pid in another PID namespace. A process has a number in its namespace
// and in each one around it; see NSpid in proc_pid_status(5).
func aliveBelow(pid int, start string) (alive, isSeen bool) {
	if _, err := os.ReadFile("/proc/1/status"); err != nil {
		return false, false // the option hidepid hides the processes of other users
	}
	names, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is well-formed
	for _, name := range names {
		numbers := namespacePIDs(name)
		if len(numbers) < 2 || numbers[len(numbers)-1] != strconv.Itoa(pid) {
			continue
		}
		outer, _ := strconv.Atoi(numbers[0]) // the kernel writes a number
		if start == "" || Start(outer) == start {
			return true, true
		}
	}
	return false, true
}

// namespacePIDs returns the numbers of a process in its PID namespaces, the outermost first, from its status file.
func namespacePIDs(file string) []string {
	data, _ := os.ReadFile(file) // an error means that it has ended
	for line := range bytes.Lines(data) {
		if numbers, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			return strings.Fields(string(numbers))
		}
	}
	return nil
}
