//go:build !linux

package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// This file stands in for the Linux ones where there is no better: package os
// alone, without inodes, so without hard links as such, change times or extended
// attributes. What changed and kept its size and modification time is missed.

// readFlags open a file for reading.
const readFlags = os.O_RDONLY

type rootDir struct{ root *os.Root }

func openRootDir(path string) (*rootDir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &rootDir{root}, nil
}

func (r *rootDir) close()        { r.root.Close() }
func (r *rootDir) dir() *openDir { return &openDir{r.root, false} }

// asRoot makes a directory that was opened below another a root. Closing it closes d.
func (d *openDir) asRoot(*rootDir) *rootDir { return &rootDir{d.root} }

// owner returns the user id of an entry's owner, "." being the directory itself.
func (d *openDir) owner(name string) (uint32, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return 0, err
	}
	return ownerUID(fi), nil
}

func (r *rootDir) open(rel string) (*openDir, error) {
	if rel == "" {
		return r.dir(), nil
	}
	at := &openDir{r.root, false}
	for name := range strings.SplitSeq(rel, "/") {
		next, err := at.enter(name)
		at.close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

type openDir struct {
	root *os.Root
	own  bool // closing it closes root
}

func (d *openDir) enter(name string) (*openDir, error) {
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, syscall.ENOTDIR
	}
	next, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if self, err := next.Lstat("."); err != nil || !os.SameFile(before, self) {
		next.Close()
		return nil, syscall.ENOTDIR
	}
	return &openDir{next, true}, nil
}

func (d *openDir) close() {
	if d.own {
		d.root.Close()
	}
}

func (d *openDir) read(_ []byte, visit func(name []byte, st *stat, err error)) error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		st, err := d.stat(name)
		if !isGone(err) {
			visit([]byte(name), &st, err)
		}
	}
	return err
}

func (d *openDir) stat(name string) (stat, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return stat{}, err
	}
	return statOf(fi), nil
}

func (d *openDir) self() (stat, error)                  { return d.stat(".") }
func (d *openDir) readlink(name string) (string, error) { return d.root.Readlink(name) }
func (d *openDir) xattrs() ([]byte, error)              { return nil, nil }

func (d *openDir) open(name string) (*openFile, error) {
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, syscall.ELOOP
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	return &openFile{f: f}, nil
}

type openFile struct {
	f      *os.File
	sparse bool // never known
}

func (f *openFile) close()                  { f.f.Close() }
func (f *openFile) handle() int             { return int(f.f.Fd()) }
func (f *openFile) xattrs() ([]byte, error) { return nil, nil }

func (f *openFile) stat() (stat, error) {
	fi, err := f.f.Stat()
	if err != nil {
		return stat{}, err
	}
	return statOf(fi), nil
}

func (f *openFile) hollow() bool                   { return false }
func (f *openFile) readSparse([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (f *openFile) rewind() error {
	_, err := f.f.Seek(0, io.SeekStart)
	return err
}

func (f *openFile) read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func statOf(fi fs.FileInfo) stat {
	st := stat{size: fi.Size(), mtime: fi.ModTime().UnixNano(), ctime: fi.ModTime().UnixNano(), nlink: 1}
	st.mode = uint32(fi.Mode().Perm())
	for bit, mode := range map[uint32]fs.FileMode{
		0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky,
		typeDir: fs.ModeDir, typeFIFO: fs.ModeNamedPipe,
	} {
		if fi.Mode()&mode != 0 {
			st.mode |= bit
		}
	}
	switch {
	case fi.Mode().IsRegular():
		st.mode |= typeFile
	case fi.Mode()&fs.ModeSymlink != 0:
		st.mode |= typeSymlink
	case fi.Mode()&fs.ModeSocket != 0:
		st.mode |= typeSocket
	}
	if st.lends() {
		st.uid, st.gid = ownerOf(fi)
	}
	if fi.IsDir() {
		st.size, st.mtime, st.ctime = 0, 0, 0
	}
	return st
}

func keepOwner(vfs.File, present) error           { return nil }
func readXattrs(int) ([]byte, error)              { return nil, nil }
func syncAll(top vfs.Root) error                  { return top.SyncDir(".") }
func clone(vfs.File, *openFile) error             { return errors.ErrUnsupported }
func copyRange(vfs.File, *openFile) (bool, error) { return false, nil }

func writeXattrs(_ uintptr, want []xattr) error {
	if len(want) > 0 {
		return errors.ErrUnsupported
	}
	return nil
}

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func isReplaced(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR)
}

func writersOf(int) writers { return unknownWriters }

func newClock(_ *rootDir, root stat) clock {
	return clock{dev: root.dev, start: time.Now().UnixNano(), tick: unknownTick}
}
