package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// Store is a [segno.Store] in a directory. It is also a [segno.Chains], [segno.Workspaces],
// [segno.Leaser], [segno.Eraser] and [segno.Watcher]. Only Erase removes data from it.
//
// A write holds the store's lock until the record is durable, which excludes all other writers in all
// processes. Reads lock only the index in memory.
type Store struct {
	*threadlog.Store
	disk *disk
}

// disk keeps logs in a directory: [threadlog.Logs].
type disk struct {
	dir    string
	fs     vfs.FS
	wait   time.Duration // the longest wait for another process's lock
	writer chan struct{} // buffered for the one goroutine of this process that holds the lock
	opened vfs.File      // the log that the writer has opened, or nil

	mu       sync.Mutex // guards the following fields, and everything that index refers to
	index    *threadlog.Index
	changes  os.FileInfo // of the file changes; nil if there is none
	read     int64       // the length of the part of changes that was read
	complete bool        // whether every log was read
}

// Options configure a [Store]. The zero value is the default.
type Options struct {
	Clock func() time.Time // decides whether a lease has expired; nil means time.Now
	FS    vfs.FS           // nil means [vfs.OS]; tests let its operations fail
}

const formatName = "segno file store"

type format struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// Open returns the store in dir. The directory need not exist: the first call that writes creates it.
// Open reads only the version of the format. The error has [segno.KindNewer] if this package does not
// know the version.
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
		return nil, threadlog.Fail(op, dir, err)
	}
	s := &disk{dir: dir, fs: o.FS, wait: lockWait, writer: make(chan struct{}, 1), index: threadlog.NewIndex(nameOf[segno.ThreadID])}
	if err := ctx.Err(); err != nil {
		return nil, threadlog.Fail(op, "", err)
	}
	store := &Store{threadlog.New(s, o.Clock, notify.Poll), s}
	data, err := os.ReadFile(s.formatFile())
	if errors.Is(err, fs.ErrNotExist) {
		return store, nil
	}
	var f format
	switch {
	case err != nil:
		return nil, threadlog.Fail(op, dir, err)
	case json.Unmarshal(data, &f) != nil || f.Format != formatName || f.Version < 1:
		return nil, corrupt(s.formatFile(), errors.New("it does not record the format of a file store"))
	case f.Version > version:
		return nil, errNewer
	}
	return store, nil
}

// Path returns the store's directory.
func (s *Store) Path() string { return s.disk.dir }

func (s *disk) formatFile() string { return filepath.Join(s.dir, "format.json") }

func (s *disk) threadsDir() string { return filepath.Join(s.dir, "threads") }

// exists reports whether the store exists: the directory threads is created last.
func (s *disk) exists() bool {
	_, err := os.Stat(s.threadsDir())
	return err == nil
}

// create creates the store if it does not exist.
func (s *disk) create() error {
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

// Close implements [threadlog.Logs].
func (s *disk) Close() error {
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil
}

// Enter implements [threadlog.Logs]. If write is set, the caller also holds the store's lock until
// leave.
//
// A reader normally takes no lock on the disk, because changes only announces durable records. If the
// index is incomplete, the reader takes the store's lock once and reads all logs. Without the lock, it
// could mistake a record that is being written for one that a crash left.
func (s *disk) Enter(ctx context.Context, write bool) (x *threadlog.Index, leave func(), err error) {
	unlock := func() {}
	if write {
		if err = s.create(); err == nil {
			unlock, err = s.lock(ctx)
		}
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	s.mu.Lock()
	leave = func() {
		if s.opened != nil {
			s.opened.Close() // Append has synced it
			s.opened = nil
		}
		s.mu.Unlock()
		unlock()
	}
	err = s.refresh()
	if err == nil && !s.complete && !write {
		s.mu.Unlock()
		unlock, err = s.lock(ctx)
		if isReadOnly(err) {
			err = nil // no process writes to the store meanwhile
		}
		s.mu.Lock()
		err = errors.Join(err, s.refresh())
	}
	if err == nil && !s.complete {
		err = s.recover()
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return s.index, leave, nil
}

// errNewer is the cause of errors for records that a newer version wrote.
var errNewer = segno.Errorf(segno.KindNewer, "open store", "", "a newer version of segno wrote it").
	WithHint("use the version that wrote it, or a newer one")

func corrupt(name string, err error) error {
	return segno.NewError(segno.KindCorrupt, "read store", name, err)
}
