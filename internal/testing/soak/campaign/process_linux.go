package main

import "syscall"

// killWithParent lets the system kill the process when this one ends, however it ends.
func killWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
