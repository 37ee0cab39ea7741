// Package faultfs wraps a [vfs.FS] for tests in which the disk fails: at the n-th
// operation, or because it is full.
package faultfs

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// Faults counts the operations of every [vfs.FS] that it wraps in one sequence. It fails
// one of them, or that one and all later ones.
type Faults struct {
	// Err is the error of a failed operation; nil means "no space left on device".
	Err error
	// Forever also fails every operation after the first failed one: a full disk stays
	// full, a dead process stays dead.
	Forever bool
	// When, if it is not nil, decides about each operation instead of a number: the
	// operation fails with the error that When returns.
	When func() error

	mu    sync.Mutex
	n     int
	fired bool
	trace []string
}

// FailAt returns Faults that fail operation n, counted from 0. With a negative n, they fail
// none and only trace.
func FailAt(n int) *Faults { return &Faults{n: n} }

// Fired reports whether the Faults failed an operation. If a run succeeds although Fired is
// true, it ignored an error.
func (f *Faults) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Trace returns the operations in order, as "verb: base name".
func (f *Faults) Trace() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.trace...)
}

// Wrap returns fsys with f's faults.
func (f *Faults) Wrap(fsys vfs.FS) vfs.FS { return faultFS{fsys, f} }

func (f *Faults) op(verb, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := len(f.trace)
	f.trace = append(f.trace, verb+": "+filepath.Base(name))
	err := f.Err
	switch {
	case f.When != nil:
		if err = f.When(); err == nil {
			return nil
		}
	case f.n < 0 || at < f.n || (at > f.n && !f.Forever):
		return nil
	case err == nil:
		err = syscall.ENOSPC
	}
	f.fired = true
	return &fs.PathError{Op: verb, Path: name, Err: fmt.Errorf("injected at operation %d: %w", at, err)}
}

type faultFS struct {
	vfs.FS
	faults *Faults
}

func (f faultFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&(syscall.O_WRONLY|syscall.O_RDWR|syscall.O_CREAT) != 0 {
		if err := f.faults.op("create", name); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f.faults}, nil
}

func (f faultFS) Mkdir(name string, perm fs.FileMode) error {
	if err := f.faults.op("mkdir", name); err != nil {
		return err
	}
	return f.FS.Mkdir(name, perm)
}

func (f faultFS) Remove(name string) error {
	if err := f.faults.op("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f faultFS) Rename(oldname, newname string) error {
	if err := f.faults.op("rename", newname); err != nil {
		return err
	}
	return f.FS.Rename(oldname, newname)
}

func (f faultFS) Link(oldname, newname string) error {
	if err := f.faults.op("link", newname); err != nil {
		return err
	}
	return f.FS.Link(oldname, newname)
}

func (f faultFS) Symlink(target, name string) error {
	if err := f.faults.op("symlink", name); err != nil {
		return err
	}
	return f.FS.Symlink(target, name)
}

func (f faultFS) Chmod(name string, mode fs.FileMode) error {
	if err := f.faults.op("chmod", name); err != nil {
		return err
	}
	return f.FS.Chmod(name, mode)
}

func (f faultFS) Chtimes(name string, atime, mtime time.Time) error {
	if err := f.faults.op("chtimes", name); err != nil {
		return err
	}
	return f.FS.Chtimes(name, atime, mtime)
}

func (f faultFS) SyncDir(name string) error {
	if err := f.faults.op("syncdir", name); err != nil {
		return err
	}
	return f.FS.SyncDir(name)
}

func (f faultFS) OpenRoot(name string) (vfs.Root, error) {
	r, err := f.FS.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return faultRoot{faultFS{r, f.faults}, r}, nil
}

type faultRoot struct {
	faultFS
	root vfs.Root
}

func (r faultRoot) Lstat(name string) (fs.FileInfo, error) { return r.root.Lstat(name) }
func (r faultRoot) Readlink(name string) (string, error)   { return r.root.Readlink(name) }
func (r faultRoot) Close() error                           { return r.root.Close() }

type faultFile struct {
	vfs.File
	faults *Faults
}

// Write leaves half of the bytes in the file if it fails, as a full disk does.
func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.faults.op("write", f.Name()); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultFile) Sync() error {
	if err := f.faults.op("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.faults.op("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Chmod(mode fs.FileMode) error {
	if err := f.faults.op("chmod", f.Name()); err != nil {
		return err
	}
	return f.File.Chmod(mode)
}
