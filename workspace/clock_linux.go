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
		c.fine, c.leases, c.tick = multigrain(), true, localTick
		c.noWriteBack = int64(sys.Type) == unix.TMPFS_MAGIC
	}
	return c
}

// writersOf asks for a read lease on a file that fd has open for reading only. The
// kernel refuses it while any process holds the file open for writing or has it
// mapped shared and writable. The lease is returned at once: a process that opens
// the file for writing in between waits for these few microseconds. The kernel
// gives leases only to the owner of the file and to CAP_LEASE.
func writersOf(fd int) writers {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch err {
	case nil:
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK) // closing fd returns it at the latest
		return noWriter
	case unix.EAGAIN:
		return someWriter
	}
	return unknownWriters
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
