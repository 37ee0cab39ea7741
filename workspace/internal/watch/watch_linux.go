package watch

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// Watcher watches directories of one file system. Its methods may be called concurrently.
type Watcher struct {
	id     [16]byte
	dev    uint64 // of the root; directories of other devices are not watched
	mounts *mounts
	most   int // directories that it watches

	mu     sync.Mutex
	queue  queue
	file   *os.File // owns the queue's descriptor
	cookie *os.File // the watcher's own directory, which no path leads to
	proof  string   // its key
	closed bool
	buf    []byte
	seq    uint64           // of the newest token
	dirs   map[Dir]*mark    // the watched directories
	byKey  map[string]*mark // the same ones, by the kernel's key of their events
	stats  Stats
}

// mark is a watched directory.
type mark struct {
	dir Dir
	key string
	// seq is the first token at which all known changes of the directory had happened.
	seq uint64
}

// queue is a queue of events of the kernel.
type queue interface {
	descriptor() int
	// add watches the directory that is open as fd and returns the key of its events.
	add(fd int) (key string, err error)
	// parse calls visit for each event in a buffer that the kernel filled.
	parse(buf []byte, visit func(event)) error
	kind() string
	// most returns how many directories a watcher may watch.
	most() int
}

// event is what a watcher needs of an event.
type event struct {
	key  string // of the directory that changed
	gone bool   // the directory is not watched any more
	lost bool   // the kernel dropped events
}

// Open returns a watcher for the file system of the directory root. private is a directory in which it may create an
// own one, for a moment. The error is [ErrUnsupported] if root is on a file system that other machines write.
func Open(root, private string) (*Watcher, error) {
	w, err := open(openFanotify, root, private)
	if err != nil {
		var other error
		if w, other = OpenInotify(root, private); other != nil {
			return nil, errors.Join(ErrUnsupported, err, other)
		}
	}
	return w, nil
}

// OpenInotify is Open with a queue of inotify.
func OpenInotify(root, private string) (*Watcher, error) { return open(openInotify, root, private) }

func open(openQueue func() (int, queue, error), root, private string) (*Watcher, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Stat(root, &st), unix.Statfs(root, &fs)); err != nil {
		return nil, err
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return nil, ErrUnsupported
	}
	return start(openQueue, root, private, uint64(st.Dev))
}

// start returns a watcher with a queue, after the queue reported a first event.
func start(openQueue func() (int, queue, error), root, private string, dev uint64) (_ *Watcher, err error) {
	w := &Watcher{dev: dev, buf: make([]byte, 64<<10), dirs: map[Dir]*mark{}, byKey: map[string]*mark{}}
	_, _ = rand.Read(w.id[:]) // it never fails
	defer func() {
		if err != nil {
			w.release()
		}
	}()
	if w.mounts, err = openMounts(root); err != nil {
		return nil, err
	}
	fd, q, err := openQueue()
	if err != nil {
		return nil, err
	}
	w.queue, w.file, w.stats.Kind, w.most = q, os.NewFile(uintptr(fd), q.kind()), q.kind(), q.most()
	if err = w.openCookie(private); err != nil {
		return nil, err
	}
	if _, err = w.Sync(); err != nil {
		return nil, err
	}
	return w, nil
}

// openCookie makes the watcher's own directory and removes it again, so that nothing is left after kill -9. In between, it checks
// that the kernel reports a change of a file with the key of its directory.
func (w *Watcher) openCookie(private string) (err error) {
	remove := func(path string) { err = errors.Join(err, vfs.OS.Remove(path)) }
	dir := filepath.Join(private, ".segno-"+rand.Text())
	if err := vfs.OS.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer remove(dir)
	if w.cookie, err = os.Open(dir); err != nil {
		return err
	}
	if w.proof, err = w.queue.add(int(w.cookie.Fd())); err != nil {
		return err
	}
	path := filepath.Join(dir, "file")
	f, err := vfs.OS.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer remove(path)
	defer f.Close()
	if err := errors.Join(w.drain(false), f.Chmod(0o400)); err != nil {
		return err
	}
	return w.drain(true)
}

// Read reads events as they come, until Close, so that the queue does not overflow between two calls of Sync.
func (w *Watcher) Read() {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return // the watcher is closed
	}
	// It reads with the lock held: otherwise Sync could find the queue empty before this goroutine has recorded the events.
	_ = raw.Read(func(uintptr) bool { // it fails when the file is closed
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed && w.drain(false) != nil {
			w.forget()
		}
		return w.closed
	})
}

// drain reads events until the queue is empty or, if awaitProof is set, until it has read the watcher's own event.
func (w *Watcher) drain(awaitProof bool) error {
	for {
		n, err := unix.Read(w.queue.descriptor(), w.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN && awaitProof:
			return errSilent
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return err
		}
		proven, err := w.record(w.buf[:n])
		if err != nil || proven && awaitProof {
			return err
		}
	}
}

// record records the events in a buffer. proven reports that the watcher's own event is among them, or may be among those
// that the kernel dropped.
func (w *Watcher) record(buf []byte) (proven bool, err error) {
	lost := false
	err = w.queue.parse(buf, func(e event) {
		w.stats.Events++
		lost = lost || e.lost
		proven = proven || e.lost || e.key == w.proof
		m := w.byKey[e.key]
		if m == nil {
			return
		}
		m.seq = w.seq + 1
		if e.gone {
			delete(w.byKey, e.key)
			delete(w.dirs, m.dir)
		}
	})
	if lost || err != nil {
		w.forget()
	}
	return proven, err
}

// forget makes every directory count as changed, because events may have been lost. The next scan adds the
// marks again.
func (w *Watcher) forget() {
	clear(w.dirs)
	clear(w.byKey)
	w.stats.Lost++
}

// Sync returns the present moment. All changes by completed system calls are before it.
func (w *Watcher) Sync() (Token, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return Token{}, errClosed
	}
	if w.mounts.changed() {
		w.forget()
	}
	now := unix.NsecToTimeval(time.Now().UnixNano())
	err := unix.Futimes(int(w.cookie.Fd()), []unix.Timeval{now, now})
	if err == nil {
		err = w.drain(true)
	}
	if err != nil {
		w.forget()
		return Token{}, err
	}
	w.seq++
	return Token{w.id, w.seq}, nil
}

// Mark watches the directory d, which is open as fd. The caller lists it afterwards, and called Sync before, with the
// result since. If Mark fails, the directory always counts as changed.
func (w *Watcher) Mark(fd int, d Dir, since Token) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || d.Dev != w.dev || since.Watcher != w.id {
		return ErrUnsupported
	}
	if len(w.dirs) >= w.most {
		w.stats.Failed++
		return errTooMany
	}
	key, err := w.queue.add(fd)
	if err != nil {
		w.stats.Failed++
		return err
	}
	seq := since.Seq
	if old := w.byKey[key]; old != nil {
		delete(w.dirs, old.dir)
		seq = max(seq, old.seq) // another scan may have watched it first, and it may have changed since then
	}
	m := &mark{d, key, seq}
	w.dirs[d], w.byKey[key] = m, m
	return nil
}

// IsMarked reports whether d is watched.
func (w *Watcher) IsMarked(d Dir) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dirs[d] != nil
}

// IsUnchanged reports whether d is watched and had no event between since and the newest Sync.
func (w *Watcher) IsUnchanged(d Dir, since Token) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isUnchanged(w.dirs[d], since)
}

func (w *Watcher) isUnchanged(m *mark, since Token) bool {
	return m != nil && since.Watcher == w.id && m.seq <= since.Seq
}

// Marked returns the directories for which IsMarked is true, and the result of IsUnchanged for each.
func (w *Watcher) Marked(since Token) map[Dir]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[Dir]bool, len(w.dirs))
	for d, m := range w.dirs {
		out[d] = w.isUnchanged(m, since)
	}
	return out
}

// Stats returns the counts of the watcher.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Dirs = len(w.dirs)
	return s
}

// Close stops the watcher. Read then returns.
func (w *Watcher) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	return w.release()
}

func (w *Watcher) release() (err error) {
	for _, f := range []*os.File{w.file, w.cookie} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if w.mounts != nil {
		err = errors.Join(err, w.mounts.file.Close())
	}
	return err
}

// IsSameUser reports whether the process at the other end of a socket runs as this process's user.
func IsSameUser(conn syscall.Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return failed == nil && err == nil && int(peer.Uid) == os.Geteuid()
}
