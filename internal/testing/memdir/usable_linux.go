package memdir

import (
	"golang.org/x/sys/unix"
)

// isUsable reports whether tests can write to dir and start programs from it.
func isUsable(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Type != unix.TMPFS_MAGIC || s.Flags&unix.ST_NOEXEC != 0 {
		return false
	}
	return s.Bavail*uint64(s.Bsize) >= least && unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}
