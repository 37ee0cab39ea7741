package workspace

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// xattrPrefix is the namespace of extended attributes that belongs to users.
const xattrPrefix = "user."

// xattr is one extended attribute.
type xattr struct{ name, value string }

// encodeXattrs returns the object of a file's attributes, or nil if there are none.
func encodeXattrs(all []xattr) []byte {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b xattr) int { return strings.Compare(a.name, b.name) })
	return encodeList(xattrMagic, all, (*codec).xattr)
}

// decodeXattrs reads the object of a file's attributes.
func decodeXattrs(data []byte) ([]xattr, error) {
	out, err := decodeList(data, xattrMagic, (*codec).xattr)
	return out, notEmpty(out, err)
}

// xattr codes one attribute.
func (c *codec) xattr(x *xattr) {
	c.key(&x.name)
	c.text(&x.value)
	isUser := strings.HasPrefix(x.name, xattrPrefix) && len(x.name) > len(xattrPrefix)
	c.check(isUser && strings.IndexByte(x.name, 0) < 0, "an attribute outside the user namespace")
}

// The buffer sizes for attributes: most are small, and the kernel has none above 64 KiB.
const (
	smallXattr = 256
	maxXattr   = 64 << 10
)

// enoattr is the error of macOS for an attribute that does not exist.
const enoattr = unix.Errno(93)

// readXattrs returns the encoded user extended attributes of an open file, or nil if it has
// none or the file system does not support them.
func readXattrs(fd int) ([]byte, error) {
	all, err := listXattrs(fd)
	return encodeXattrs(all), err
}

// listXattrs returns the user extended attributes of an open file.
func listXattrs(fd int) (all []xattr, err error) {
	names, err := xattrNames(fd)
	for _, name := range names {
		value, err := fill(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		if errors.Is(err, unix.ENODATA) || errors.Is(err, enoattr) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, xattr{name, string(value)})
	}
	return all, err
}

// xattrNames returns the names of the user extended attributes of an open file.
func xattrNames(fd int) (names []string, err error) {
	list, err := fill(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil, nil
	}
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if bytes.HasPrefix(name, []byte(xattrPrefix)) {
			names = append(names, string(name))
		}
	}
	return names, err
}

// fill returns the bytes that get writes to a buffer. It calls get with a small buffer, and
// again with the largest one if the result does not fit.
func fill(get func(buf []byte) (int, error)) ([]byte, error) {
	var small [smallXattr]byte
	for buf := small[:]; ; {
		n, err := get(buf)
		switch {
		case err == nil:
			return bytes.Clone(buf[:n]), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ERANGE):
			buf = make([]byte, maxXattr)
		default:
			return nil, err
		}
	}
}

// writeXattrs sets the user extended attributes of an open file to want.
func writeXattrs(fd uintptr, want []xattr) error {
	names, err := xattrNames(int(fd))
	if err != nil {
		return err
	}
	for _, x := range want {
		if err := unix.Fsetxattr(int(fd), x.name, []byte(x.value), 0); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(want, func(x xattr) bool { return x.name == name }) {
			if err := unix.Fremovexattr(int(fd), name); err != nil {
				return err
			}
		}
	}
	return nil
}
