package workspace

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readFlags open a file that must not be waited for, nor be a symlink.
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW

// rootDir is the open root of a tree. All reading starts at it, so that the tree
// may be moved under it, and nothing below is reached through a symlink.
type rootDir struct {
	fd      int
	stepped bool // openat2 is not to be had: open component by component
}

func openRootDir(path string) (*rootDir, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	r := &rootDir{fd: fd}
	probe, err := r.openat2(".")
	if err != nil { // ENOSYS before Linux 5.6, EPERM in some sandboxes
		r.stepped = true
		return r, nil
	}
	unix.Close(probe)
	return r, nil
}

func (r *rootDir) close() { unix.Close(r.fd) }

// dir is the root itself; closing it closes r.
func (r *rootDir) dir() *openDir { return &openDir{fd: r.fd} }

// asRoot makes a directory that was opened below r a root. Closing it closes d.
func (d *openDir) asRoot(r *rootDir) *rootDir { return &rootDir{fd: d.fd, stepped: r.stepped} }

// owner returns the user id of an entry's owner, "." being the directory itself.
func (d *openDir) owner(name string) (uint32, error) {
	var sys unix.Stat_t
	err := unix.Fstatat(d.fd, name, &sys, unix.AT_SYMLINK_NOFOLLOW)
	return sys.Uid, err
}

func (r *rootDir) openat2(rel string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, err := unix.Openat2(r.fd, rel, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// open opens the directory at rel, "" being the root.
func (r *rootDir) open(rel string) (*openDir, error) {
	if rel == "" {
		rel = "."
	}
	if !r.stepped && len(rel) < unix.PathMax {
		fd, err := r.openat2(rel)
		if err != nil {
			return nil, err
		}
		return &openDir{fd: fd}, nil
	}
	if !r.stepped {
		return r.openLong(rel)
	}
	at := r.fd
	for rest, more := rel, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		flags := unix.O_DIRECTORY | unix.O_NOFOLLOW
		if more {
			flags |= unix.O_PATH // it need not be readable, as for openat2
		}
		fd, err := openat(at, name, flags)
		if at != r.fd {
			unix.Close(at)
		}
		if err != nil {
			return nil, err
		}
		at = fd
	}
	return &openDir{fd: at}, nil
}

func openat(dirfd int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// openDir is an open directory.
type openDir struct{ fd int }

func (d *openDir) close() { unix.Close(d.fd) }

// read calls visit for each entry but "." and "..", in the order the file system
// has them, without allocating. name is valid only during the call. An entry that
// vanishes meanwhile is left out; one that cannot be looked at comes with err.
func (d *openDir) read(buf []byte, visit func(name []byte, st *stat, err error)) error {
	var st stat
	for {
		n, err := unix.Getdents(d.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			dirent := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			const at = unsafe.Offsetof(dirent.Name)
			record := rest[at:dirent.Reclen]
			rest = rest[dirent.Reclen:]
			name := record[:bytes.IndexByte(record, 0)]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			err := lstatat(d.fd, record, &st)
			if err != syscall.ENOENT {
				visit(name, &st, err)
			}
		}
	}
}

// stat looks at one entry, a symlink as such.
func (d *openDir) stat(name string) (st stat, err error) {
	var sys unix.Stat_t
	if err = unix.Fstatat(d.fd, name, &sys, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		st.from(&sys)
	}
	return st, err
}

// self looks at the directory itself.
func (d *openDir) self() (st stat, err error) { return fstat(d.fd) }

func (d *openDir) readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.fd, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (d *openDir) xattrs() ([]byte, error) { return readXattrs(d.fd) }

// open opens a file for reading; a symlink is an error, and a FIFO does not block.
func (d *openDir) open(name string) (*openFile, error) {
	fd, err := openat(d.fd, name, unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	return &openFile{fd: fd}, nil
}

// openLong opens a directory whose path is longer than the kernel accepts. It opens the
// path in parts, each as long as the kernel accepts, because one call for each name is
// slow in a deep tree.
func (r *rootDir) openLong(rel string) (*openDir, error) {
	at := *r
	for rel != "" {
		part := rel
		if len(part) >= unix.PathMax { // no name in it is as long
			part = part[:strings.LastIndexByte(part[:unix.PathMax], '/')]
		}
		fd, err := at.openat2(part)
		if at.fd != r.fd {
			at.close()
		}
		if err != nil {
			return nil, err
		}
		at.fd, rel = fd, strings.TrimPrefix(rel[len(part):], "/")
	}
	return &openDir{fd: at.fd}, nil
}

// openFile is a file open for reading.
type openFile struct {
	fd   int
	size int64
	// sparse says that much of it takes no space. It is known once stat was called.
	sparse bool
}

func (f *openFile) close()                  { unix.Close(f.fd) }
func (f *openFile) handle() int             { return f.fd }
func (f *openFile) xattrs() ([]byte, error) { return readXattrs(f.fd) }
func (f *openFile) stat() (st stat, err error) {
	var sys unix.Stat_t
	if err = unix.Fstat(f.fd, &sys); err == nil {
		st.from(&sys)
		f.size, f.sparse = sys.Size, sys.Size-512*sys.Blocks >= minHole
	}
	return st, err
}

// hollow reports whether the file has a size and no data.
func (f *openFile) hollow() bool {
	_, err := unix.Seek(f.fd, 0, unix.SEEK_DATA)
	return f.sparse && err == unix.ENXIO
}

// readSparse is readFull from the start of a file with holes, which it does not
// read. A file system that does not tell holes has one extent.
func (f *openFile) readSparse(buf []byte) (n int, err error) {
	end := min(int64(len(buf)), f.size)
	for at := int64(0); at < end; {
		data, err := unix.Seek(f.fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO || err == nil && data >= end {
			clear(buf[at:end])
			break
		}
		if err != nil {
			return 0, err
		}
		clear(buf[at:data])
		hole, err := unix.Seek(f.fd, data, unix.SEEK_HOLE)
		if err != nil {
			return 0, err
		}
		at = min(hole, end)
		if short, err := f.readAt(buf[data:at], data); short || err != nil {
			return 0, err
		}
	}
	return int(end), nil
}

// readAt fills p from an offset; short says that the file ended before.
func (f *openFile) readAt(p []byte, at int64) (short bool, err error) {
	for len(p) > 0 {
		n, err := unix.Pread(f.fd, p, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return true, err
		}
		p, at = p[n:], at+int64(n)
	}
	return false, nil
}

func (f *openFile) rewind() error {
	_, err := unix.Seek(f.fd, 0, 0)
	return err
}
func (f *openFile) read(p []byte) (n int, err error) {
	for {
		n, err = unix.Read(f.fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func fstat(fd int) (st stat, err error) {
	var sys unix.Stat_t
	if err = unix.Fstat(fd, &sys); err == nil {
		st.from(&sys)
	}
	return st, err
}

func (s *stat) from(sys *unix.Stat_t) {
	*s = stat{
		dev: uint64(sys.Dev), ino: sys.Ino, size: sys.Size, mode: sys.Mode, nlink: uint32(sys.Nlink),
		mtime: nanoseconds(int64(sys.Mtim.Sec), int64(sys.Mtim.Nsec)),
		ctime: nanoseconds(int64(sys.Ctim.Sec), int64(sys.Ctim.Nsec)),
	}
	if s.lends() {
		s.uid, s.gid = sys.Uid, sys.Gid
	}
}

// statOf is the stat of what package os or a [vfs.Root] looked at.
func statOf(fi fs.FileInfo) stat {
	sys := fi.Sys().(*syscall.Stat_t)
	st := stat{
		dev: uint64(sys.Dev), ino: sys.Ino, size: sys.Size, mode: sys.Mode, nlink: uint32(sys.Nlink),
		mtime: nanoseconds(int64(sys.Mtim.Sec), int64(sys.Mtim.Nsec)),
		ctime: nanoseconds(int64(sys.Ctim.Sec), int64(sys.Ctim.Nsec)),
	}
	if st.lends() {
		st.uid, st.gid = sys.Uid, sys.Gid
	}
	return st
}

// The errors that tell why something could not be opened.
func isGone(err error) bool { return errors.Is(err, syscall.ENOENT) }

func isReplaced(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENXIO)
}
