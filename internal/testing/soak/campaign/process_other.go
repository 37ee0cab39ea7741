//go:build unix && !linux

package main

import "syscall"

func killWithParent(*syscall.SysProcAttr) {}
