//go:build unix

package workspace

import (
	"io/fs"
	"os"
	"syscall"
)

// uidOf returns the user id of a file's owner.
func uidOf(fi fs.FileInfo) uint32 { return fi.Sys().(*syscall.Stat_t).Uid }

// isForeign reports whether a user id is not that of this process.
func isForeign(uid uint32) bool { return int64(uid) != int64(os.Geteuid()) }
