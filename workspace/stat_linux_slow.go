//go:build linux && !(amd64 || arm64 || loong64 || riscv64)

package workspace

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// lstatat looks at the entry of dirfd whose name begins at name[0] and ends with a NUL.
func lstatat(dirfd int, name []byte, st *stat) error {
	var sys unix.Stat_t
	err := unix.Fstatat(dirfd, string(name[:bytes.IndexByte(name, 0)]), &sys, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		st.from(&sys)
	}
	return err
}
