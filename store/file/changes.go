package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// changes tells processes of each other's commits, and where a commit is to be
// found without reading every log.
type changes struct {
	path string
	fs   vfs.FS
	turn chan struct{} // taken by whoever reads on, and guards what follows
	is   fs.FileInfo   // the file that was read, or nil
	once bool          // the threads were compared with it, and it was sound since

	// The store's lock guards these.
	read   int64       // what is before it was read, or written by us
	file   vfs.File    // to append to
	opened fs.FileInfo // which file that is
}

func (c *changes) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// farthest is how far ahead of our clock another process's may be.
const farthest = 24 * time.Hour

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
		f, err := s.fs.OpenFile(s.changes.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		if s.changes.opened, err = f.Stat(); err != nil {
			return errors.Join(err, f.Close())
		}
		s.changes.file = f
	}
	if _, err := s.changes.file.Write(data); err != nil {
		return err
	}
	// We need not read what we wrote, if nothing came between.
	if end, err := s.changes.file.Seek(0, io.SeekCurrent); err == nil && s.changes.read == end-int64(len(data)) {
		s.changes.read = end
	}
	return nil
}

// dropRemoved lets go of a file that somebody removed; now is what has its name, or nil.
func (s *Store) dropRemoved(now fs.FileInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.changes.file
	if f == nil || now != nil && os.SameFile(now, s.changes.opened) {
		return nil
	}
	s.changes.file = nil
	return f.Close()
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
	s.changes.once = s.changes.once && sound
	if s.changes.once {
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
	s.mu.Lock()
	from := s.changes.read // before the size is asked for, which others make grow meanwhile
	s.mu.Unlock()
	now, err := os.Stat(s.changes.path)
	if errors.Is(err, fs.ErrNotExist) {
		now = nil
	} else if err != nil {
		return false, err
	}
	was := s.changes.is
	s.changes.is = now
	if now == nil {
		s.setRead(0)
		return was == nil, s.dropRemoved(nil)
	}
	if err := s.dropRemoved(now); err != nil {
		return false, err
	}
	sound = was == nil || os.SameFile(was, now) && now.Size() >= from
	if !sound {
		from = 0
	}
	if now.Size() == from {
		return sound, nil
	}
	data, err := readRange(s.changes.path, from, now.Size())
	if err != nil {
		return false, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1] // the rest is still being written, or torn
	s.setRead(from + int64(len(data)))
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

func (s *Store) setRead(to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes.read = to
}

// readRange reads a part of a file, or as much as there is of it.
func readRange(path string, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, to-from)
	n, err := f.ReadAt(data, from)
	if err == io.EOF {
		err = nil
	}
	return data[:n], err
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
	if c.order < s.clock().Add(farthest).UnixNano() {
		s.order = max(s.order, c.order)
	}
	if c.commit != "" && s.commits[c.commit] == nil {
		s.places[c.commit] = c.thread
	}
}
