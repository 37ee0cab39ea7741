package vfs

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteNew makes a new file with the bytes of r. The file gets its name only when it is complete and durable. The error
// is [fs.ErrExist] if another file has the name. A crash leaves at most a stray ".segno-*" file.
func WriteNew(fsys FS, name string, r io.Reader, perm fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(name), ".segno-"+rand.Text())
	f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Link(temp, name) // unlike a rename, it replaces nothing
	}
	if removing := fsys.Remove(temp); err == nil {
		err = removing
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	return err
}

// Scratch returns an empty file without a name on the file system of a directory. The kernel frees it when it is
// closed, or when the process ends in any way.
func Scratch(fsys FS, dir string) (File, error) {
	name := filepath.Join(dir, ".segno-"+rand.Text())
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
