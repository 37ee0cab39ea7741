package workspace

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// clone makes dst share src's blocks until one of them is written.
func clone(dst vfs.File, src *openFile) error {
	return unix.IoctlFileClone(int(dst.Fd()), src.fd)
}

// copyRange lets the kernel copy; false says that it cannot between these two.
func copyRange(dst vfs.File, src *openFile) (bool, error) {
	for first := true; ; first = false {
		n, err := unix.CopyFileRange(src.fd, nil, int(dst.Fd()), nil, math.MaxInt32&^4095, 0)
		switch {
		case err == unix.EINTR:
		case err != nil && first:
			return false, nil
		case err != nil:
			return true, err
		case n == 0:
			return !first, nil // a file of /proc looks empty: read it
		}
	}
}
