package vfs

import (
	"io/fs"
	"sync/atomic"
	"syscall"
)

// Limited is an FS for tests whose disk is full while Full is set: then a write fails with
// ENOSPC.
type Limited struct {
	FS
	Full atomic.Bool
}

func (l *Limited) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &limitedFile{f, l}, nil
}

type limitedFile struct {
	File
	on *Limited
}

func (f *limitedFile) Write(data []byte) (int, error) {
	if f.on.Full.Load() {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(data)
}
