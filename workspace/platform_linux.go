//go:build linux && (amd64 || arm64 || loong64 || riscv64) && !portable

package workspace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// This file contains functions that Linux supports and other systems lack. Each has a portable
// counterpart in platform_portable.go. The tag portable selects those on Linux, so that tests can
// run them.

// searchOnly opens a directory only for looking up names in it.
const searchOnly = unix.O_PATH

// foldsNames reports whether a lookup in a directory may find a name in another spelling. The file systems on which segno usually
// works compare names byte by byte, unless a directory has the flag for other names. Others may not: those of Windows and macOS
// ignore case, also if they are on another machine or mounted into a container.
func foldsNames(d *dirHandle) bool {
	var sys unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &sys); err != nil {
		return true
	}
	switch sys.Type {
	case unix.BTRFS_SUPER_MAGIC, unix.XFS_SUPER_MAGIC:
		return false
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		flags, err := unix.IoctlGetInt(d.fd, unix.FS_IOC_GETFLAGS)
		return err == nil && flags&casefolded != 0
	}
	return true
}

// casefolded is FS_CASEFOLD_FL, the flag of a directory in which names are compared without case.
const casefolded = 0x40000000

// hasOpenat2 reports whether openat2 works. It does not before Linux 5.6, nor in some sandboxes.
func hasOpenat2(fd int) bool {
	probe, err := openat2(fd, ".")
	if err != nil {
		return false
	}
	unix.Close(probe)
	return true
}

// openat2 opens a directory below dirfd. It fails if a component of the path is a symlink.
func openat2(dirfd int, rel string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, err := unix.Openat2(dirfd, rel, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// list calls visit for each entry except "." and "..", in the order of the file system. It does
// not allocate; name is valid only during the call. It leaves out entries that vanish meanwhile,
// and passes err with a name whose stat fails. buf must have direntBytes bytes.
func (d *dirHandle) list(buf []byte, visit func(name []byte, st *stat, err error)) error {
	var st stat
	for {
		n, err := unix.Getdents(d.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			// The last record may be shorter than unix.Dirent, so a pointer of that type could reach beyond the buffer.
			size := binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Reclen):])
			record := rest[unsafe.Offsetof(unix.Dirent{}.Name):size]
			rest = rest[size:]
			name := record[:bytes.IndexByte(record, 0)]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			switch errno := lstatRecord(d.fd, record, &st); errno {
			case 0:
				visit(name, &st, nil)
			case unix.ENOENT:
			default:
				visit(name, &st, errno)
			}
		}
	}
}

// lstatRecord returns the stat of the entry whose name begins at record[0] and ends with a NUL.
// The system call takes a name in this form, so that it need not be copied.
func lstatRecord(dirfd int, record []byte, st *stat) unix.Errno {
	var sys unix.Stat_t
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(dirfd), uintptr(unsafe.Pointer(&record[0])),
		uintptr(unsafe.Pointer(&sys)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno == 0 {
		st.from(&sys)
	}
	return errno
}

// isHole reports whether the file has a size but no data.
func (f *fileHandle) isHole() bool {
	if !f.sparse {
		return false
	}
	_, err := unix.Seek(f.fd, 0, unix.SEEK_DATA)
	return err == unix.ENXIO || f.rewind() != nil
}

// newClock returns the clock of the file system that contains the root.
func newClock(d *dirHandle, root stat) clock {
	c := clock{dev: root.dev, start: time.Now().UnixNano(), tick: unknownTick}
	var sys unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &sys); err != nil {
		return c
	}
	switch sys.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		c.fine, c.leases, c.tick = hasMultigrainTimes(), true, localTick
		c.noWriteBack = sys.Type == unix.TMPFS_MAGIC
	}
	return c
}

// hasMultigrainTimes reports whether the kernel is 6.13 or later.
func hasMultigrainTimes() bool {
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

// writersOf requests a read lease on a file that is open as fd for reading only. The kernel
// refuses it while any process holds the file open for writing or has it mapped shared and
// writable. writersOf returns the lease immediately: a process that opens the file for writing in
// between waits for these few microseconds. The kernel gives leases only to the owner of the file
// and to CAP_LEASE.
func writersOf(fd int) writers {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch err {
	case nil:
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK) // otherwise closing fd returns it
		return noWriter
	case unix.EAGAIN:
		return someWriter
	}
	return unknownWriters
}

// reflink makes dst share src's blocks until either file is written.
func reflink(dst vfs.File, src *fileHandle) error { return unix.IoctlFileClone(int(dst.Fd()), src.fd) }

// copyInKernel copies src to dst. done is false if the kernel cannot copy between these files.
func copyInKernel(dst vfs.File, src *fileHandle) (done bool, err error) {
	for first := true; ; first = false {
		n, err := unix.CopyFileRange(src.fd, nil, int(dst.Fd()), nil, math.MaxInt32&^4095, 0)
		switch {
		case err == unix.EINTR:
		case err != nil && first:
			return false, nil
		case err != nil:
			return true, err
		case n == 0:
			return !first, nil // a file of /proc looks empty: read it instead
		}
	}
}

// syncAll makes all data written to the file system of fd durable.
func syncAll(fd int) error { return unix.Syncfs(fd) }
