package main

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// walk does the minimal work to find the changes of a tree without a watcher: getdents64
// and fstatat of everything, on as many threads as there are cores, and a comparison with
// the result of the last run in memory.
type walk struct {
	root    int // open directory
	top     *folder
	changed atomic.Int64

	mu    sync.Mutex
	more  sync.Cond
	stack []*folder
	idle  int
	err   error
}

// folder is the state of a directory at the last run, in the order of the file system.
type folder struct {
	path    string
	entries []seen
}

type seen struct {
	name         string
	mtime, ctime int64
	size         int64
	ino          uint64
	mode         uint32
	child        *folder
}

func newWalk(root string) (*walk, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	w := &walk{root: fd, top: &folder{path: "."}}
	w.more.L = &w.mu
	return w, nil
}

func (w *walk) close() { unix.Close(w.root) }

// run scans the whole tree and returns the number of entries that differ from the last run.
func (w *walk) run() (int64, error) {
	w.changed.Store(0)
	w.stack, w.idle, w.err = []*folder{w.top}, 0, nil
	var group sync.WaitGroup
	threads := runtime.GOMAXPROCS(0)
	for range threads {
		group.Go(func() { w.work(threads) })
	}
	group.Wait()
	return w.changed.Load(), w.err
}

func (w *walk) work(threads int) {
	buf := make([]byte, 32<<10)
	var found []*folder
	for {
		w.mu.Lock()
		w.stack = append(w.stack, found...)
		if len(found) > 1 {
			w.more.Broadcast()
		}
		w.idle++
		for len(w.stack) == 0 && w.idle < threads {
			w.more.Wait()
		}
		if len(w.stack) == 0 {
			w.more.Broadcast()
			w.mu.Unlock()
			return
		}
		w.idle--
		f := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		w.mu.Unlock()
		var err error
		if found, err = w.look(f, buf, found[:0]); err != nil {
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
		}
	}
}

// look compares one directory and returns the directories in it.
func (w *walk) look(f *folder, buf []byte, found []*folder) ([]*folder, error) {
	fd, err := unix.Openat(w.root, f.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return found, err
	}
	defer unix.Close(fd)
	at := 0
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			f.entries = f.entries[:at]
			return found, err
		}
		for rest := buf[:n]; len(rest) > 0; {
			record := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := rest[unsafe.Offsetof(record.Name):record.Reclen]
			rest = rest[record.Reclen:]
			if name[0] == '.' && (name[1] == 0 || name[1] == '.' && name[2] == 0) {
				continue
			}
			now, err := lstatat(fd, name)
			if err != nil {
				return found, err
			}
			e := w.compare(f, at, name[:bytes.IndexByte(name, 0)], now)
			if at++; e.child != nil {
				found = append(found, e.child)
			}
		}
	}
}

// compare updates the entry with one name if it differs from the last run.
func (w *walk) compare(f *folder, at int, name []byte, now seen) *seen {
	if at == len(f.entries) {
		f.entries = append(f.entries, seen{})
	}
	e := &f.entries[at]
	now.name, now.child = e.name, e.child
	if e.name == string(name) && *e == now {
		return e
	}
	w.changed.Add(1)
	if e.name != string(name) {
		now.name, now.child = string(name), nil
	}
	if now.child == nil && now.mode&unix.S_IFMT == unix.S_IFDIR {
		now.child = &folder{path: strings.TrimPrefix(f.path+"/", "./") + now.name}
	}
	*e = now
	return e
}

// lstatat accepts the name as the kernel wrote it, including the NUL, and copies nothing.
func lstatat(fd int, name []byte) (seen, error) {
	var st unix.Stat_t
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 {
		return seen{}, errno
	}
	return seen{mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), size: st.Size, ino: st.Ino, mode: st.Mode}, nil
}
