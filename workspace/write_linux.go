package workspace

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

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

// keepOwner gives a file the owner of the one it replaces, where we may. A mode
// with setuid must be set after it.
func keepOwner(f vfs.File, was present) error {
	if was.st.ino == 0 || os.Geteuid() != 0 {
		return nil
	}
	var now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &now); err != nil {
		return err
	}
	if now.Uid == was.uid && now.Gid == was.gid {
		return nil
	}
	return unix.Fchown(int(f.Fd()), int(was.uid), int(was.gid))
}

// syncAll makes everything written to the tree's file system durable.
func syncAll(top vfs.Root) error {
	f, err := top.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
