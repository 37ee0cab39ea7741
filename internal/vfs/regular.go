package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OpenRegular opens a plain file for reading. Paths come from hooks and archives, so a FIFO or a
// device in the file's place must not block the process. For anything except a plain file, the
// error is [fs.ErrNotExist].
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
