//go:build unix

package workspace

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// ownerOf returns the user and the group that a file belongs to.
func ownerOf(fi fs.FileInfo) (uid, gid uint32) {
	sys := fi.Sys().(*syscall.Stat_t)
	return sys.Uid, sys.Gid
}

// listNames returns the names in an open directory.
func listNames(f vfs.File) (names []string, err error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(int(f.Fd()), buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
