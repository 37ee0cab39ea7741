//go:build unix

package workspace

import (
	"io/fs"
	"syscall"
)

// uidOf returns the user that owns a file.
func uidOf(fi fs.FileInfo) uint32 { return fi.Sys().(*syscall.Stat_t).Uid }
