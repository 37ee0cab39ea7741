package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// change is a line of the file changes, which is written after the record that it describes is
// durable. The lines say which commit is in which thread, and how long each log is at least.
type change struct {
	Commit segno.CommitID `json:"commit,omitempty"` // empty if the record is no commit
	Dir    string         `json:"dir"`              // of the thread
	Order  int64          `json:"order"`
	End    int64          `json:"end"` // of the record in the thread's log
}

func (s *Store) changesFile() string { return filepath.Join(s.dir, "changes") }

// refresh reads the lines that other processes have added to changes. Afterwards the index is not
// complete if changes was never compared with the logs, or if some line of it cannot be read.
func (s *Store) refresh() error {
	now, err := os.Stat(s.changesFile())
	if errors.Is(err, fs.ErrNotExist) {
		s.reset(nil)
		s.index.complete = !s.exists()
		return nil
	}
	if err != nil {
		return err
	}
	// The index keeps the file open, so that no other file gets its inode.
	if !s.index.reads(now) {
		f, err := os.Open(s.changesFile())
		if err != nil {
			return err
		}
		s.reset(f)
	}
	x := s.index
	if now.Size() <= x.read {
		return nil
	}
	data := make([]byte, now.Size()-x.read)
	if _, err := x.changes.ReadAt(data, x.read); err != nil {
		return err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1] // the rest is still being written, or torn
	x.read += int64(len(data))
	for line := range bytes.Lines(data) {
		var c change
		if len(line) == 1 {
			continue
		}
		if fields, _, err := unseal(line); err != nil || json.Unmarshal(fields, &c) != nil {
			x.complete, x.distrusted = false, true
			continue
		}
		t := x.threadIn(filepath.Join(s.threadsDir(), c.Dir))
		t.end = max(t.end, c.End)
		x.order = max(x.order, c.Order)
		if c.Commit != "" && x.commits[c.Commit] == nil {
			x.unread[c.Commit] = t
		}
	}
	return nil
}

// reset begins a new index, of which nothing was read. f is changes, or nil.
func (s *Store) reset(f *os.File) {
	s.index.close()
	s.index = newIndex(f)
}

// recover compares changes with the logs, and adds to changes what it lacks: records of a process
// that was killed, or all if changes was removed. The caller holds the store's lock.
//
// A thread that cannot be read does not keep recover from the others. Its error is kept, and the
// next call tries again unless the thread is damaged.
func (s *Store) recover() error {
	if info, err := os.Stat(s.changesFile()); err == nil && info.Size() > s.index.read || s.index.distrusted {
		_ = s.fs.Remove(s.changesFile()) // a line is damaged or torn; if the file stays, the next process comes here again
		s.reset(nil)
	}
	dirs, err := os.ReadDir(s.threadsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	x, complete := s.index, true
	for _, dir := range dirs {
		if strings.HasPrefix(dir.Name(), ".") || !dir.IsDir() {
			continue
		}
		t := x.threadIn(filepath.Join(s.threadsDir(), dir.Name()))
		t.damage = nil
		f, err := s.fs.OpenFile(t.log(), os.O_RDONLY, 0)
		if err == nil {
			err = s.adopt(t, f, false)
			f.Close() // only read
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.damage = fail("read thread", t.dir, err)
			complete = complete && (errors.Is(t.damage, segno.KindCorrupt) || errors.Is(t.damage, segno.KindNewer))
		}
	}
	x.complete = complete
	return nil
}

// announce adds lines to changes. The caller holds the store's lock, and has refreshed the index.
func (s *Store) announce(all []change) error {
	var data []byte
	for _, c := range all {
		fields, err := json.Marshal(c)
		if err != nil {
			return err
		}
		// A line break comes first, too, so that a line torn by a crash spoils itself only.
		data = append(append(data, '\n'), seal(fields)...)
	}
	f, err := s.fs.OpenFile(s.changesFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // changes is not synced: it can be made from the logs
	if _, err := f.Write(data); err != nil {
		return err
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	x := s.index
	if !x.reads(now) {
		x.close()
		if x.changes, err = os.Open(s.changesFile()); err != nil {
			return err
		}
	}
	x.read = now.Size()
	return nil
}
