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
	"github.com/dalsegno/segno/internal/notify"
	"github.com/dalsegno/segno/internal/vfs"
)

// Store is a [segno.Store], and [segno.Chains], [segno.Workspaces], [segno.Leaser],
// [segno.Eraser], [segno.Checker] and [segno.Watcher], in a directory. Nothing is ever
// dropped from it but by Erase.
type Store struct {
	dir   string
	fs    vfs.FS
	clock func() time.Time
	wait  time.Duration // for another process's lock

	calls  sync.RWMutex // held for reading by calls under way
	closed bool

	changes  *changes
	notifier notify.Notifier

	mu      sync.Mutex      // guards what follows, and what threads say it guards
	made    bool            // the directory is there and says which format it is
	dirs    map[string]bool // that are known to be durable
	threads map[segno.ThreadID]*thread
	phases  [segno.PhaseWaiting + 1]map[*thread]bool
	commits map[segno.CommitID]*commit
	places  map[segno.CommitID]segno.ThreadID // what changes says, of threads not read yet
	pins    map[segno.CommitID]pin
	states  map[segno.WorkspaceID]state
	// operations are those of all workspaces.
	operations map[segno.OperationID]operation
	// nameless are directories of threads whose id only their damaged log knows.
	nameless map[string]error
	order    int64 // the highest seen
}

// pin is the newest word on a checkpoint's pin; an empty name took it off.
type pin struct {
	name  string
	order int64
}

var (
	_ segno.Store      = (*Store)(nil)
	_ segno.Chains     = (*Store)(nil)
	_ segno.Workspaces = (*Store)(nil)
	_ segno.Leaser     = (*Store)(nil)
	_ segno.Eraser     = (*Store)(nil)
	_ segno.Checker    = (*Store)(nil)
)

// Options may be left out.
type Options struct {
	Clock func() time.Time // tells when leases end and, roughly, which thread changed last; nil is time.Now
	FS    vfs.FS           // nil is [vfs.OS]; tests fail its operations
}

const formatName = "format.json"

type format struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

const formatIs = "segno file store"

// Open returns the store in dir, which need not exist: it is made by the first
// call that writes. Nothing but the version is read yet; a newer one is
// [segno.KindNewer].
func Open(dir string, o ...Options) (*Store, error) {
	const op = "open store"
	var options Options
	if len(o) > 0 {
		options = o[0]
	}
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.FS == nil {
		options.FS = vfs.OS
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail(op, dir, err)
	}
	s := &Store{dir: dir, fs: options.FS, clock: options.Clock, wait: lockWait, threads: map[segno.ThreadID]*thread{}, commits: map[segno.CommitID]*commit{},
		places: map[segno.CommitID]segno.ThreadID{}, pins: map[segno.CommitID]pin{}, nameless: map[string]error{},
		states: map[segno.WorkspaceID]state{}, operations: map[segno.OperationID]operation{}, dirs: map[string]bool{}}
	s.changes = &changes{path: filepath.Join(dir, "changes"), fs: options.FS, turn: make(chan struct{}, 1)}
	if _, err := s.checkFormat(op); err != nil {
		return nil, err
	}
	return s, nil
}

// Path is the store's directory.
func (s *Store) Path() string { return s.dir }

// checkFormat reports whether there is a store yet, and whether we can read it.
func (s *Store) checkFormat(op string) (bool, error) {
	name := filepath.Join(s.dir, formatName)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(s.threadsDir()); err != nil {
			return false, nil
		}
		// Another process may have made both between the two looks.
		if data, err = os.ReadFile(name); errors.Is(err, fs.ErrNotExist) {
			return false, corrupt(op, name, errors.New("it is missing, and there are threads"))
		}
	}
	if err != nil {
		return false, fail(op, name, err)
	}
	var f format
	if err := json.Unmarshal(data, &f); err != nil || f.Format != formatIs || f.Version < 1 {
		return false, corrupt(op, name, errors.New("it does not say which format the store has"))
	}
	if f.Version > version {
		return false, fail(op, s.dir, errNewer)
	}
	return true, nil
}

// make makes the store's directory, once.
func (s *Store) make() error {
	s.mu.Lock()
	made := s.made
	s.mu.Unlock()
	if made {
		return nil
	}
	there, err := s.checkFormat("open store")
	if err != nil {
		return err
	}
	if !there {
		if err := s.mkdir(s.dir); err != nil {
			return err
		}
		data, err := json.Marshal(format{formatIs, version})
		if err != nil {
			return err
		}
		if err := vfs.Replace(s.fs, filepath.Join(s.dir, formatName), append(data, '\n'), 0o600); err != nil {
			return err
		}
	}
	if err := s.mkdir(s.threadsDir()); err != nil {
		return err
	}
	s.mu.Lock()
	s.made = true
	s.mu.Unlock()
	return nil
}

// mkdir makes a directory and what is missing above it, durably. One of the
// store's that is there may have been made by a call that failed: whether it is
// durable is only taken for granted once we made sure of it.
func (s *Store) mkdir(dir string) error {
	s.mu.Lock()
	sure := s.dirs[dir]
	s.mu.Unlock()
	if sure {
		return nil
	}
	_, err := os.Stat(dir)
	if err == nil && len(dir) <= len(s.dir) {
		return nil
	}
	if err := s.mkdir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err != nil {
		if err := s.fs.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := s.fs.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	s.mu.Lock()
	s.dirs[dir] = true
	s.mu.Unlock()
	return nil
}

func (s *Store) threadsDir() string { return filepath.Join(s.dir, "threads") }

// begin is the beginning of every call; end is its end.
func (s *Store) begin(ctx context.Context, op string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fail(op, "", err)
	}
	s.calls.RLock()
	if s.closed {
		s.calls.RUnlock()
		return nil, invalid(op, "", "the store is closed")
	}
	return s.calls.RUnlock, nil
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.notifier.NotifyAll()
	return fail("close store", s.dir, s.changes.close())
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	const op = "read head"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Head{}, err
	}
	defer end()
	t, err := s.fresh(ctx, op, id)
	if err != nil {
		return segno.Head{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(t.head, same), nil
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, id segno.ThreadID) error {
	const op = "delete thread"
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	defer s.notifier.Notify(id)
	return s.update(ctx, op, id, func(*thread) (record, error) { return record{Hidden: true}, nil })
}
