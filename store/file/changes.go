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

// change is a line of the file changes. A writer appends it after the record in the log is durable.
// The lines tell other processes which logs have become longer, and they are the evidence that a log
// has lost records: it is then shorter than its newest line records.
type change struct {
	Dir    string `json:"dir,omitempty"`    // of the thread
	End    int64  `json:"end,omitempty"`    // of its log
	Erased bool   `json:"erased,omitempty"` // logs are being written again: no earlier line counts
}

func (s *Store) changesFile() string { return filepath.Join(s.dir, "changes") }

// refresh reads the lines that other processes have added to changes, and the records that they
// announce. If it cannot continue where it stopped, it begins a new index, which is not complete.
func (s *Store) refresh() error {
	now, err := os.Stat(s.changesFile())
	switch x := s.index; {
	case errors.Is(err, fs.ErrNotExist):
		s.index = newIndex(s.threadsDir())
		s.index.complete = !s.exists()
		return nil
	case err != nil:
		return err
	case x.changes == nil || !os.SameFile(x.changes, now) || now.Size() < x.read:
		s.index = newIndex(s.threadsDir())
	}
	s.index.changes = now
	lines, err := s.readChanges(now.Size())
	if err != nil {
		return err
	}
	announced := map[*thread]bool{}
	for _, c := range lines {
		if c.Erased {
			read := s.index.read
			s.index, announced = newIndex(s.threadsDir()), map[*thread]bool{}
			s.index.changes, s.index.read = now, read
			continue
		}
		t := s.index.thread(c.Dir)
		t.end, announced[t] = max(t.end, c.End), true
	}
	for t := range announced {
		if s.index.complete && t.damage == nil { // otherwise recover reads all logs
			t.damage = s.load(t)
			s.index.complete = isPermanent(t.damage)
		}
	}
	return nil
}

// readChanges returns the lines between the part of changes that was read and an offset. It skips a
// line that is damaged or still being written.
func (s *Store) readChanges(to int64) (lines []change, err error) {
	if to == s.index.read {
		return nil, nil
	}
	f, err := os.Open(s.changesFile())
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	data := make([]byte, to-s.index.read)
	if _, err := f.ReadAt(data, s.index.read); err != nil {
		return nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	s.index.read += int64(len(data))
	for line := range bytes.Lines(data) {
		var c change
		if fields, _, err := unseal(line); err == nil && json.Unmarshal(fields, &c) == nil {
			lines = append(lines, c)
		}
	}
	return lines, nil
}

// recover reads all logs. It announces records that are not announced because their process was
// killed, or because changes was removed. The caller holds the store's lock.
//
// A thread that cannot be read does not keep recover from reading the others. Unless the thread is
// damaged, the index stays incomplete, so that the next call tries again.
func (s *Store) recover() error {
	dirs, err := os.ReadDir(s.threadsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	x := s.index
	for _, dir := range dirs {
		if !strings.HasPrefix(dir.Name(), ".") && dir.IsDir() {
			x.thread(dir.Name())
		}
	}
	x.complete = true
	for _, t := range x.threads {
		log, err := s.openLog(t, os.O_RDONLY)
		if log != nil {
			log.Close() // only read
		}
		t.damage = fail("read thread", t.dir, err)
		x.complete = x.complete && isPermanent(t.damage)
	}
	return nil
}

// isPermanent reports whether reading again gives the same result.
func isPermanent(err error) bool {
	return err == nil || errors.Is(err, segno.KindCorrupt) || errors.Is(err, segno.KindNewer)
}

// announce appends a line to changes. Only an erasure needs the line itself to be durable: other
// lines can be made from the logs. The caller holds the store's lock and has refreshed the index.
func (s *Store) announce(c change) error {
	fields, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := s.fs.OpenFile(s.changesFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // it is synced if that matters
	// A line break comes first, too, so that a line torn by a crash spoils itself only.
	if _, err = f.Write(append([]byte("\n"), seal(fields)...)); err == nil && c.Erased {
		err = errors.Join(f.Sync(), s.fs.SyncDir(s.dir))
	}
	now, statErr := f.Stat()
	if err == nil && statErr == nil {
		s.index.changes, s.index.read = now, now.Size()
	}
	return errors.Join(err, statErr)
}
