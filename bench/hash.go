package main

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// readAndHash does the minimal work of a first snapshot: it finds all files of a tree,
// reads them and computes their SHA-256, on as many threads as there are cores.
func readAndHash(root string) (files, bytes int64, err error) {
	w, err := newWalk(root)
	if err != nil {
		return 0, 0, err
	}
	defer w.close()
	if _, err := w.run(); err != nil {
		return 0, 0, err
	}
	var paths []string
	w.top.list(&paths)
	var next, size atomic.Int64
	var fault atomic.Value
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			buf := make([]byte, 1<<20)
			for i := next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
				n, err := hashFile(w.root, paths[i], buf)
				if err != nil {
					fault.Store(err)
				}
				size.Add(n)
			}
		})
	}
	group.Wait()
	err, _ = fault.Load().(error)
	return int64(len(paths)), size.Load(), err
}

// list appends the paths of the files in and below f.
func (f *folder) list(paths *[]string) {
	for i := range f.entries {
		e := &f.entries[i]
		switch {
		case e.child != nil:
			e.child.list(paths)
		case e.mode&unix.S_IFMT == unix.S_IFREG:
			*paths = append(*paths, f.path+"/"+e.name)
		}
	}
}

func hashFile(dir int, path string, buf []byte) (size int64, err error) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	h := sha256.New()
	for {
		n, err := unix.Read(fd, buf)
		if err != nil || n <= 0 {
			h.Sum(buf[:0])
			return size, err
		}
		h.Write(buf[:n])
		size += int64(n)
	}
}
