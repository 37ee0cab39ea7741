package main

import "syscall"

// killWithParent makes the system kill the process when this one ends for any reason.
func killWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
