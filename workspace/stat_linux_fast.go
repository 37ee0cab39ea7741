//go:build linux && (amd64 || arm64 || loong64 || riscv64)

package workspace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// lstatat looks at the entry of dirfd whose name begins at name[0] and ends with a
// NUL: a directory entry as the kernel wrote it needs no copy to be looked up.
func lstatat(dirfd int, name []byte, st *stat) error {
	var sys unix.Stat_t
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(dirfd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&sys)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 {
		return errno
	}
	st.from(&sys)
	return nil
}
