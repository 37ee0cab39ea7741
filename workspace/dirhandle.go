package workspace

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// dirHandle is an open directory. All reads of a tree start from the handle of its root, so
// that the tree may be renamed meanwhile and no symlink below the root is followed.
type dirHandle struct {
	fd int
	// stepwise is set if openat2 is missing: a path is then opened name by name.
	stepwise bool
	file     vfs.File // if not nil, it owns fd
}

// openRoot opens the directory at path, which may contain symlinks.
func openRoot(path string) (*dirHandle, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &dirHandle{fd: fd, stepwise: !hasOpenat2(fd)}, nil
}

// openRealDir opens a directory by its absolute path, which must not contain a symlink.
func openRealDir(path string) (*dirHandle, error) {
	top, err := openRoot("/")
	if err != nil || path == "/" {
		return top, err
	}
	defer top.close()
	dir, err := top.openDir(strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}

// openWritten opens, for reading, the directory to which at writes.
func openWritten(at vfs.Root) (*dirHandle, error) {
	f, err := at.OpenFile(".", unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(f.Fd())
	return &dirHandle{fd, !hasOpenat2(fd), f}, nil
}

func openat(dirfd int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (d *dirHandle) close() {
	if d.file != nil {
		d.file.Close()
		return
	}
	unix.Close(d.fd)
}

// maxPath is more than the longest path, in bytes, that the kernel accepts.
const maxPath = 4096

// openDir opens the directory at rel; "" is d itself. No component may be a symlink. openDir
// opens a path that is too long for the kernel in parts, each as long as possible, because one
// call for each name is slow in a deep tree.
func (d *dirHandle) openDir(rel string) (*dirHandle, error) {
	if rel == "" {
		rel = "."
	}
	for at := d.fd; ; {
		part, rest := rel, ""
		if d.stepwise {
			part, rest, _ = strings.Cut(rel, "/")
		} else if len(rel) >= maxPath {
			cut := strings.LastIndexByte(rel[:maxPath], '/')
			part, rest = rel[:cut], rel[cut+1:]
		}
		var fd int
		var err error
		switch {
		case !d.stepwise:
			fd, err = openat2(at, part)
		case rest != "": // an intermediate directory need not be readable
			fd, err = openat(at, part, unix.O_DIRECTORY|unix.O_NOFOLLOW|searchOnly)
		default:
			fd, err = openat(at, part, unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
		if at != d.fd {
			unix.Close(at)
		}
		if err != nil {
			return nil, err
		}
		if rest == "" {
			return &dirHandle{fd: fd, stepwise: d.stepwise}, nil
		}
		at, rel = fd, rest
	}
}

// lstat returns the stat of the path rel without following a symlink at its end; "" is d
// itself.
func (d *dirHandle) lstat(rel string) (st stat, err error) {
	if strings.Contains(rel, "/") {
		up, err := d.openDir(path.Dir(rel))
		if err != nil {
			return st, err
		}
		defer up.close()
		return up.lstat(path.Base(rel))
	}
	var sys unix.Stat_t
	if rel == "" {
		err = unix.Fstat(d.fd, &sys)
	} else {
		err = unix.Fstatat(d.fd, rel, &sys, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		st.from(&sys)
	}
	return st, err
}

// find is lstat, but it reports a missing path with ok instead of an error.
func (d *dirHandle) find(rel string) (st stat, ok bool, err error) {
	st, err = d.lstat(rel)
	if isAbsent(err) {
		return stat{}, false, nil
	}
	return st, err == nil, err
}

// exists reports whether there is something at rel.
func (d *dirHandle) exists(rel string) bool {
	_, err := d.lstat(rel)
	return err == nil
}

// isDir reports whether rel is a directory whose path contains no symlink.
func (d *dirHandle) isDir(rel string) bool {
	st, err := d.lstat(rel)
	return err == nil && st.is(typeDir)
}

// beginsWith reports whether rel is a regular file that begins with prefix.
func (d *dirHandle) beginsWith(rel, prefix string) bool {
	f, _, err := d.openRegular(rel)
	if err != nil {
		return false
	}
	defer f.close()
	buf := make([]byte, len(prefix))
	n, err := readFull(f, buf)
	return err == nil && string(buf[:n]) == prefix
}

func (d *dirHandle) readlink(name string) (string, error) {
	buf := make([]byte, maxPath)
	n, err := unix.Readlinkat(d.fd, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// names returns the sorted names in the directory at rel, or none if it is not a directory.
func (d *dirHandle) names(rel string) (names []string, err error) {
	dir, err := d.openDir(rel)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.close()
	err = dir.list(make([]byte, direntBytes), func(name []byte, _ *stat, _ error) { names = append(names, string(name)) })
	slices.Sort(names)
	return names, err
}

// foldedNames is names for a directory in which a lookup may find another spelling of a name. It returns nil for any other one, and
// for a path that is no directory.
func (d *dirHandle) foldedNames(rel string) ([]string, error) {
	dir, err := d.openDir(rel)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.close()
	if !foldsNames(dir) {
		return nil, nil
	}
	names, err := dir.names("")
	return append([]string{}, names...), err
}

// direntBytes is the buffer size for [dirHandle.list].
const direntBytes = 32 << 10

// open opens a file in d for reading. It returns an error for a symlink, and does not block on
// a FIFO.
func (d *dirHandle) open(name string) (*fileHandle, error) {
	fd, err := openat(d.fd, name, unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	return &fileHandle{fd: fd}, nil
}

// errNotRegular is the error for a path that is not a regular file, or is too large.
var errNotRegular = errors.New("not a regular file, or too large")

// openRegular opens the file at rel and returns its stat. It opens only regular files, because
// opening a device can have an effect.
func (d *dirHandle) openRegular(rel string) (*fileHandle, stat, error) {
	dir := d
	if strings.Contains(rel, "/") {
		var err error
		if dir, err = d.openDir(path.Dir(rel)); err != nil {
			return nil, stat{}, err
		}
		defer dir.close()
		rel = path.Base(rel)
	}
	st, err := dir.lstat(rel)
	if err == nil && !st.is(typeFile) {
		err = errNotRegular
	}
	if err != nil {
		return nil, st, err
	}
	f, err := dir.open(rel)
	if err != nil {
		return nil, st, err
	}
	if st, err = f.stat(); err == nil && st.is(typeFile) {
		return f, st, nil
	}
	f.close()
	return nil, st, cmp.Or(err, errNotRegular)
}

// readFile returns the content of the regular file at rel, which has at most limit bytes.
func (d *dirHandle) readFile(rel string, limit int64) ([]byte, error) {
	f, st, err := d.openRegular(rel)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if st.size > limit {
		return nil, errNotRegular
	}
	buf := make([]byte, st.size)
	n, err := readFull(f, buf)
	return buf[:n], err
}

// fileHandle is a file that is open for reading.
type fileHandle struct {
	fd     int
	size   int64
	sparse bool // a large part of it takes no space on the disk; known after stat
}

func (f *fileHandle) close()                  { unix.Close(f.fd) }
func (f *fileHandle) xattrs() ([]byte, error) { return readXattrs(f.fd) }

func (f *fileHandle) stat() (st stat, err error) {
	var sys unix.Stat_t
	if err = unix.Fstat(f.fd, &sys); err == nil {
		st.from(&sys)
		f.size, f.sparse = sys.Size, sys.Size-512*sys.Blocks >= minHole
	}
	return st, err
}

func (f *fileHandle) rewind() error {
	_, err := unix.Seek(f.fd, 0, io.SeekStart)
	return err
}

// Read implements [io.Reader].
func (f *fileHandle) Read(p []byte) (n int, err error) {
	for {
		n, err = unix.Read(f.fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// WriteTo implements [io.WriterTo] with large writes.
func (f *fileHandle) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(w, struct{ io.Reader }{f}, make([]byte, 4*minHole))
}

// readFull reads until buf is full or the file ends.
func readFull(f *fileHandle, buf []byte) (n int, err error) {
	n, err = io.ReadFull(f, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

// isGone reports whether an error means that a name does not exist.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// isReplaced reports whether an error means that a name has another type than expected.
func isReplaced(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENXIO)
}

// isAbsent reports whether an error means that a path does not exist, because its last name or
// one of its directories is missing.
func isAbsent(err error) bool {
	var not notDirError
	return isGone(err) || isReplaced(err) || errors.As(err, &not)
}
