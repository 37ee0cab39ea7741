//go:build !linux

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
)

// unprivilegedMain runs a command.
func unprivilegedMain() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "unprivileged:", err)
		os.Exit(1)
	}
}
