package faultfs

import (
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/dalsegno/segno/internal/vfs"
)

// Limited is a vfs.FS on a disk that is full while Full is set: each write fails with ENOSPC.
type Limited struct {
	vfs.FS
	Full atomic.Bool
}

func (l *Limited) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &limitedFile{f, l}, nil
}

type limitedFile struct {
	vfs.File
	on *Limited
}

func (f *limitedFile) Write(data []byte) (int, error) {
	if f.on.Full.Load() {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(data)
}
