package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// changes tells processes of each other's commits, and where a commit is to be
// found without reading every log.
type changes struct {
	path string
	fs   vfs.FS
	turn chan struct{} // taken by whoever reads on, and guards what follows
	read int64
	file vfs.File    // to append to; guarded by the store's lock, as is is
	is   fs.FileInfo // what it was when it was opened
	once bool        // the threads were compared with it
}

func (c *changes) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// change is a line of changes.
type change struct {
	commit  segno.CommitID // "" if the record is no commit
	thread  segno.ThreadID
	order   int64
	at, end int64 // of the record in its log
}

func (c change) line() ([]byte, error) {
	data, err := json.Marshal([]any{c.commit, c.thread, c.order, c.at, c.end})
	if err != nil {
		return nil, err
	}
	// It begins with a line break too: a line torn by a crash spoils itself only.
	return append(append([]byte{'\n'}, data...), '\n'), nil
}

func (c *change) parse(line []byte) error {
	fields := []any{&c.commit, &c.thread, &c.order, &c.at, &c.end}
	if err := json.Unmarshal(line, &fields); err != nil {
		return err
	}
	if len(fields) != 5 || c.thread == "" || c.at < 0 || c.end <= c.at {
		return errors.New("it is no change")
	}
	return nil
}

// announce appends to changes what is about to be appended to a log.
func (s *Store) announce(t *thread, r record, at, end int64) error {
	c := change{thread: t.id, order: r.Order, at: at, end: end}
	if r.Commit != nil {
		c.commit = r.Commit.ID
	}
	return s.write([]change{c})
}

func (s *Store) write(all []change) error {
	var data []byte
	for _, c := range all {
		line, err := c.line()
		if err != nil {
			return err
		}
		data = append(data, line...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes.file == nil {
		f, err := s.fs.OpenFile(s.changes.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		if s.changes.is, err = f.Stat(); err != nil {
			return errors.Join(err, f.Close())
		}
		s.changes.file = f
	}
	_, err := s.changes.file.Write(data)
	return err
}

// tail returns what is new in changes, up to size.
func (s *Store) tail(now fs.FileInfo) ([]byte, error) {
	data := make([]byte, now.Size()-s.changes.read)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.changes.file; f != nil {
		if os.SameFile(now, s.changes.is) {
			n, err := f.ReadAt(data, s.changes.read)
			return data[:n], notEnd(err)
		}
		s.changes.file = nil // somebody removed it, and it is written again
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(s.changes.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.ReadAt(data, s.changes.read)
	return data[:n], notEnd(err)
}

func notEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// catchUp learns from changes what other processes did.
func (s *Store) catchUp(ctx context.Context, op string) error {
	done, err := take(ctx, op, s.changes.turn)
	if err != nil {
		return err
	}
	defer done()
	sound, err := s.readChanges()
	if err != nil {
		return fail(op, s.changes.path, err)
	}
	if s.changes.once && sound {
		return nil
	}
	if err := s.compare(ctx, op); err != nil {
		return err
	}
	s.changes.once = true
	return nil
}

// readChanges reads on in changes. It is not sound if something in it could not
// be read.
func (s *Store) readChanges() (sound bool, err error) {
	fi, err := os.Stat(s.changes.path)
	if errors.Is(err, fs.ErrNotExist) {
		sound, s.changes.read = s.changes.read == 0, 0
		return sound, nil
	}
	if err != nil || fi.Size() == s.changes.read {
		return true, err
	}
	sound = fi.Size() > s.changes.read
	if !sound {
		s.changes.read = 0
	}
	data, err := s.tail(fi)
	if err != nil {
		return false, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1] // the rest is still being written, or torn
	s.changes.read += int64(len(data))
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range bytes.Lines(data) {
		line = line[:len(line)-1]
		var c change
		if len(line) == 0 {
			continue
		}
		if err := c.parse(line); err != nil {
			sound = false
			continue
		}
		s.note(c)
	}
	return sound, nil
}

// note keeps what a line of changes says. The caller has the store's lock.
func (s *Store) note(c change) {
	t := s.threadLocked(c.thread)
	switch {
	case c.at == 0:
		t.gap = false
	case c.at > t.covered:
		t.gap = true
	}
	t.covered = max(c.end, t.size)
	s.order = max(s.order, c.order)
	if c.commit != "" && s.commits[c.commit] == nil {
		s.places[c.commit] = c.thread
	}
}

// compare reads the logs of which changes does not know all, and writes there
// what was missing.
func (s *Store) compare(ctx context.Context, op string) error {
	des, err := os.ReadDir(s.threadsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(op, s.threadsDir(), err)
	}
	for _, de := range des {
		if strings.HasPrefix(de.Name(), ".") {
			continue
		}
		t, err := s.inDir(op, de.Name())
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		fi, err := os.Stat(t.path())
		s.mu.Lock()
		covered, gap := t.covered, t.gap
		s.mu.Unlock()
		if err == nil && fi.Size() == covered && !gap {
			continue
		}
		if err := s.look(ctx, op, t); segno.KindOf(err) == segno.KindCancelled {
			return err
		}
		s.complete(t, covered, gap)
	}
	return nil
}

// complete writes into changes what it lacks of a thread. It is a cache, perhaps
// on a disk that cannot be written: an error only makes the next one look again.
func (s *Store) complete(t *thread, covered int64, gap bool) {
	s.mu.Lock()
	if t.n == 0 || t.damage != nil || !gap && covered == t.size {
		s.mu.Unlock()
		return
	}
	var all []change
	for _, x := range t.commits {
		all = append(all, change{x.ID, t.id, x.order, x.at, x.end})
	}
	// The first line begins at 0, so that the rest is known to follow; what is no
	// commit is told of in passing.
	for i := range all {
		if i+1 < len(all) {
			all[i].end = all[i+1].at
		} else {
			all[i].end = t.size
		}
	}
	s.mu.Unlock()
	_ = s.write(all)
}

// inDir returns the thread of a directory. One that is no thread's gives nil.
func (s *Store) inDir(op, name string) (*thread, error) {
	if id, ok := idOf(name); ok {
		return s.thread(id), nil
	}
	if !strings.Contains(name, hashedMark) {
		return nil, nil
	}
	id, err := firstThread(filepath.Join(s.threadsDir(), name, logName))
	if err == nil && nameOf(id) != name {
		err = errors.New("it is not the log of the thread that the directory is named for")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nameless, name)
	if err == nil {
		return s.threadLocked(id), nil
	}
	if s.nameless[name] = fail(op, name, err); !errors.Is(err, errNewer) {
		s.nameless[name] = corrupt(op, filepath.Join(s.threadsDir(), name, logName), err)
	}
	return nil, nil
}

// firstThread reads the id of a thread from its log.
func firstThread(path string) (segno.ThreadID, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil {
		return "", err
	}
	r, err := decode(line[:len(line)-1])
	if err != nil {
		return "", err
	}
	if r.Commit == nil {
		return "", errors.New("it does not begin with a commit")
	}
	return r.Commit.Thread, nil
}
