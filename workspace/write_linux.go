package workspace

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

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
