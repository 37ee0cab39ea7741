package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
	"github.com/dalsegno/segno/internal/vfs"
)

// Store is a [segno.Store] in a directory. It is also a [segno.Chains], [segno.Workspaces],
// [segno.Leaser], [segno.Eraser] and [segno.Watcher]. Only Erase removes anything from it.
//
// A write holds the store's lock, which excludes every other writer in every process, until the
// record is durable. Reads lock nothing but the index in memory.
type Store struct {
	dir      string
	fs       vfs.FS
	clock    func() time.Time
	wait     time.Duration // for another process's lock, at most
	writer   chan struct{} // has room for the one goroutine of this process that holds the lock
	closed   atomic.Bool
	notifier notify.Notifier

	mu    sync.Mutex // guards index, and all that it leads to
	index *index
}

// Options configure a [Store]. The zero value is the default.
type Options struct {
	Clock func() time.Time // decides whether a lease has expired; nil is time.Now
	FS    vfs.FS           // nil is [vfs.OS]; tests fail its operations
}

const formatName = "segno file store"

type format struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// Open returns the store in dir. The directory need not exist: the first call that writes creates
// it. Open reads nothing but the version of the format. The error has [segno.KindNewer] for a
// version that this package does not know.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	const op = "open store"
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail(op, dir, err)
	}
	s := &Store{dir: dir, fs: o.FS, clock: o.Clock, wait: lockWait, writer: make(chan struct{}, 1)}
	s.index = newIndex(s.threadsDir())
	if err := s.begin(ctx, op); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.formatFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var f format
	switch {
	case err != nil:
		return nil, fail(op, dir, err)
	case json.Unmarshal(data, &f) != nil || f.Format != formatName || f.Version < 1:
		return nil, corrupt(s.formatFile(), errors.New("it does not record the format of a file store"))
	case f.Version > version:
		return nil, errNewer
	}
	return s, nil
}

// Path is the store's directory.
func (s *Store) Path() string { return s.dir }

func (s *Store) formatFile() string { return filepath.Join(s.dir, "format.json") }

func (s *Store) threadsDir() string { return filepath.Join(s.dir, "threads") }

// exists reports whether the store exists. The directory threads is created last.
func (s *Store) exists() bool {
	_, err := os.Stat(s.threadsDir())
	return err == nil
}

// create creates the store if it does not exist.
func (s *Store) create() error {
	if s.exists() {
		return nil
	}
	data, err := json.Marshal(format{formatName, version})
	if err == nil {
		err = vfs.MkdirAllSynced(s.fs, s.dir)
	}
	if err == nil {
		err = vfs.Replace(s.fs, s.formatFile(), append(data, '\n'), 0o600)
	}
	if err == nil {
		err = vfs.MkdirAllSynced(s.fs, s.threadsDir())
	}
	return err
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.notifier.NotifyAll()
	return nil
}

// begin checks that a call may begin.
func (s *Store) begin(ctx context.Context, op string) error {
	if s.closed.Load() {
		return segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	return fail(op, "", ctx.Err())
}

// enter returns with s.mu held, until leave is called, and with the index up to date. With write
// the caller also holds the store's lock.
//
// A reader normally takes no lock on the disk, because changes announces durable records only. When the
// index is not complete, the reader takes the store's lock for once and reads all logs: without the lock
// it could mistake a record that is being written for one that a crash has left.
func (s *Store) enter(ctx context.Context, op string, write bool) (leave func(), err error) {
	err = s.begin(ctx, op)
	if err == nil && write {
		err = s.create()
	}
	unlock := func() {}
	if err == nil && write {
		unlock, err = s.lock(ctx)
	}
	if err != nil {
		unlock()
		return nil, fail(op, s.dir, err)
	}
	s.mu.Lock()
	leave = func() { s.mu.Unlock(); unlock() }
	err = s.refresh()
	if err == nil && !s.index.complete && !write {
		s.mu.Unlock()
		unlock, err = s.lock(ctx)
		if isReadOnly(err) {
			err = nil // nothing writes to the store meanwhile
		}
		s.mu.Lock()
		err = errors.Join(err, s.refresh())
	}
	if err == nil && !s.index.complete {
		err = s.recover()
	}
	if err == nil {
		err = s.begin(ctx, op) // Close may have come first
	}
	if err != nil {
		leave()
		return nil, fail(op, s.dir, err)
	}
	return leave, nil
}

// view calls read with the index up to date and locked.
func view[T any](ctx context.Context, s *Store, op string, read func() (T, error)) (out T, err error) {
	leave, err := s.enter(ctx, op, false)
	if err != nil {
		return out, err
	}
	defer leave()
	out, err = read()
	return out, fail(op, s.dir, err)
}

// update calls decide with a thread as its log is now, and appends the record that decide returns,
// if any. It returns the head afterwards. With anyThread the thread need not exist, or may be deleted.
func (s *Store) update(
	ctx context.Context, op string, id segno.ThreadID, anyThread bool, decide func(*thread) (*record, []segno.Entry, error),
) (head segno.Head, err error) {
	leave, err := s.enter(ctx, op, true)
	if err != nil {
		return head, err
	}
	defer leave()
	t := s.index.thread(nameOf(id))
	log, err := s.openLog(t, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return head, fail(op, string(id), err)
	}
	if log != nil {
		defer log.Close() // append has synced it
	}
	if !anyThread && (!t.Exists || t.Deleted) {
		return head, notFound(op, string(id))
	}
	r, entries, err := decide(t)
	if err == nil && r != nil {
		err = s.append(t, log, r, entries) // from here on ctx is ignored: a record is written or not
		s.notifier.Notify(id)
	}
	return cloneHead(t.Head), fail(op, string(id), err)
}

// errNewer is the cause of errors about records that a newer version wrote.
var errNewer = segno.Errorf(segno.KindNewer, "open store", "", "a newer version wrote it").
	WithHint("use the version that wrote it, or a newer one")

// fail gives an error a kind. It returns an error that has one as it is.
func fail(op, name string, err error) error {
	var known *segno.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.NewError(segno.KindCancelled, op, name, err)
	}
	return segno.NewError(segno.KindIO, op, name, err)
}

func corrupt(name string, err error) error {
	return segno.NewError(segno.KindCorrupt, "read store", name, err)
}

func notFound(op, name string) error { return segno.NewError(segno.KindNotFound, op, name, nil) }
