//go:build unix

package workspace

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerUID returns the user id of a file's owner.
func ownerUID(fi fs.FileInfo) uint32 { return fi.Sys().(*syscall.Stat_t).Uid }

// isForeign reports whether a user id is not that of this process.
func isForeign(uid uint32) bool { return int64(uid) != int64(os.Geteuid()) }
