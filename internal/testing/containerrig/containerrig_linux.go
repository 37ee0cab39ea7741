// Package containerrig starts a process in another PID namespace, as a container does.
package containerrig

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/proc"
)

// Process is a process that waits until its standard input ends.
type Process struct {
	PID     int    // its number in its namespace
	Start   string // as [proc.Start] returns it
	Machine string // as [proc.Machine] returns it there
	End     func() // ends it; the end of the test does, too
}

// Start starts a process in a new PID namespace.
func Start(t testing.TB) Process {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = Namespaces(syscall.CLONE_NEWPID)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end := func() {
		stdin.Close()
		_ = cmd.Wait() // it may have ended
	}
	t.Cleanup(end)
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	boot, _, _ := strings.Cut(proc.Machine(), "/")
	return Process{PID: 1, Start: proc.Start(cmd.Process.Pid), Machine: boot + "/" + namespace, End: end}
}

// Namespaces returns the attributes of a process that has new namespaces, in which it is root.
func Namespaces(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}}
}
