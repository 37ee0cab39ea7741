// Package vfs is the file system that segno writes through wherever a write must be durable.
//
// Code that changes a disk does so through an [FS]: [OS] for absolute paths, the
// result of [FS.OpenRoot] for paths that must not leave a directory. Tests pass an FS
// of package internal/testing/faultfs, which fails the n-th operation and records the
// order of all operations. Code that only reads may use package os.
package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// FS has all operations that change a disk, and Open to read back. Names are as in package os. On a
// root, they are relative to it and cannot leave it.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	Rename(oldname, newname string) error
	Link(oldname, newname string) error
	Symlink(target, name string) error
	Chmod(name string, mode fs.FileMode) error
	Chtimes(name string, atime, mtime time.Time) error
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// OpenRoot returns an FS whose names are relative to a directory. They cannot lead
	// out of it, not even through symlinks.
	OpenRoot(name string) (Root, error)
}

// Root is an FS of one directory.
type Root interface {
	FS
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	io.Closer
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Seeker
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Truncate(size int64) error
	Sync() error
	Fd() uintptr
}

// OS is the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not f, because an interface with a nil *os.File is not nil
	}
	return f, nil
}

func (osFS) Mkdir(name string, perm fs.FileMode) error         { return os.Mkdir(name, perm) }
func (osFS) Remove(name string) error                          { return os.Remove(name) }
func (osFS) Rename(oldname, newname string) error              { return os.Rename(oldname, newname) }
func (osFS) Link(oldname, newname string) error                { return os.Link(oldname, newname) }
func (osFS) Symlink(target, name string) error                 { return os.Symlink(target, name) }
func (osFS) Chmod(name string, mode fs.FileMode) error         { return os.Chmod(name, mode) }
func (osFS) Chtimes(name string, atime, mtime time.Time) error { return os.Chtimes(name, atime, mtime) }

func (osFS) SyncDir(name string) error { return syncOpened(os.Open(name)) }

// syncOpened syncs and closes a directory.
func syncOpened(d *os.File, err error) error {
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (osFS) OpenRoot(name string) (Root, error) {
	r, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return rootFS{r}, nil
}

type rootFS struct{ *os.Root }

func (r rootFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := r.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r rootFS) SyncDir(name string) error { return syncOpened(r.Root.Open(name)) }

func (r rootFS) OpenRoot(name string) (Root, error) {
	sub, err := r.Root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return rootFS{sub}, nil
}

// MkdirAll creates a directory and its missing parents, with mode 0700.
func MkdirAll(fsys FS, name string) error { return mkdirAll(fsys, name, false) }

// MkdirAllSynced is like MkdirAll, and makes the names of new directories durable. If it cannot
// sync a name, it removes the directory, so that the name of an existing directory is durable.
func MkdirAllSynced(fsys FS, name string) error { return mkdirAll(fsys, name, true) }

func mkdirAll(fsys FS, name string, sync bool) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(name)
	if parent != name {
		if err := mkdirAll(fsys, parent, sync); err != nil {
			return err
		}
	}
	err := fsys.Mkdir(name, 0o700)
	if err == nil && sync {
		if err = fsys.SyncDir(parent); err != nil {
			_ = fsys.Remove(name) // the first error matters more
		}
	}
	if os.IsExist(err) {
		return nil
	}
	return err
}
