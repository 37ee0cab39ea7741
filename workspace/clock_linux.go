package workspace

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// newClock returns the clock of the file system the root is on.
func newClock(r *rootDir, root stat) clock {
	c := clock{dev: root.dev, start: time.Now().UnixNano(), tick: unknownTick}
	var sys unix.Statfs_t
	if err := unix.Fstatfs(r.fd, &sys); err != nil {
		return c
	}
	switch int64(sys.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		c.fine, c.tick = multigrain(), localTick
	}
	return c
}

// multigrain reports whether the kernel is 6.13 or later.
func multigrain() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 6 || major == 6 && minor >= 13
}
