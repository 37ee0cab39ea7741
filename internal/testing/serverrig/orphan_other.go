//go:build !linux

package serverrig

import (
	"os/exec"
	"syscall"
)

// dieWithParent does nothing: only Linux can signal a process when its parent ends.
func dieWithParent(*exec.Cmd, syscall.Signal) {}

// children returns nil: a server's processes end soon after the first one.
func children(int) []int { return nil }
