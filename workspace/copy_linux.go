package workspace

import (
	"errors"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// clone makes dst share src's blocks until one of them is written.
func clone(dst vfs.File, src *openFile) error {
	return unix.IoctlFileClone(int(dst.Fd()), src.fd)
}

// copyExtents copies the data of a file with holes, and leaves the holes.
func copyExtents(dst vfs.File, src *openFile) error {
	for at := int64(0); ; {
		data, err := unix.Seek(src.fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return dst.Truncate(src.size)
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(src.fd, data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := unix.Seek(src.fd, data, io.SeekStart); err != nil {
			return err
		}
		if _, err := dst.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(struct{ io.Writer }{dst}, reader{src}, hole-data); errors.Is(err, io.EOF) {
			return nil // it was cut short meanwhile
		} else if err != nil {
			return err
		}
		at = hole
	}
}

// copyRange lets the kernel copy; false says that it cannot between these two.
func copyRange(dst vfs.File, src *openFile) (bool, error) {
	if src.sparse {
		return true, copyExtents(dst, src)
	}
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
