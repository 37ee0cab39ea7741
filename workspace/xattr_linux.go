package workspace

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// readXattrs returns the user extended attributes of an open file, encoded; nil
// if it has none or the file system knows none.
func readXattrs(fd int) ([]byte, error) {
	var few [256]byte
	list, err := listXattrs(fd, few[:])
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var all []xattr
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if !bytes.HasPrefix(name, []byte(xattrPrefix)) {
			continue
		}
		value, err := getXattr(fd, string(name))
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, xattr{string(name), string(value)})
	}
	return encodeXattrs(all), nil
}

func listXattrs(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := unix.Flistxattr(fd, buf)
		switch err {
		case nil:
			return buf[:n], nil
		case unix.ENOTSUP, unix.ENOSYS:
			return nil, nil
		case unix.EINTR:
		case unix.ERANGE:
			buf = make([]byte, 64<<10) // the most the kernel lists
		default:
			return nil, err
		}
	}
}

func getXattr(fd int, name string) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(fd, name, buf)
		switch err {
		case nil:
			return buf[:n], nil
		case unix.EINTR:
		case unix.ERANGE:
			buf = make([]byte, 64<<10) // the longest value the kernel keeps
		default:
			return nil, err
		}
	}
}

// writeXattrs makes an open file's user extended attributes these and no others.
func writeXattrs(fd uintptr, want []xattr) error {
	var few [256]byte
	list, err := listXattrs(int(fd), few[:])
	if err != nil {
		return err
	}
	keep := make(map[string]bool, len(want))
	for _, x := range want {
		keep[x.name] = true
		if err := unix.Fsetxattr(int(fd), x.name, []byte(x.value), 0); err != nil {
			return err
		}
	}
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if bytes.HasPrefix(name, []byte(xattrPrefix)) && !keep[string(name)] {
			if err := unix.Fremovexattr(int(fd), string(name)); err != nil {
				return err
			}
		}
	}
	return nil
}
