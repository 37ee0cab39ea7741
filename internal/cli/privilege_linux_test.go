package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// unprivilegedMain runs a command without the privileges of root, so that file modes apply to it
// even if root runs the tests.
func unprivilegedMain() {
	runtime.LockOSThread()
	for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
		// fails for other users, who do not need it
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "unprivileged:", err)
	os.Exit(1)
}
