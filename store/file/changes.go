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
// announce. If it cannot go on from where it was, it begins an index that is not complete.
func (s *Store) refresh() error {
	now, err := os.Stat(s.changesFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	x := s.index
	if err != nil || x.changes == nil || !os.SameFile(x.changes, now) || now.Size() < x.read {
		x = newIndex()
		s.index = x
		if x.complete = err != nil && !s.exists(); err != nil {
			return nil
		}
	}
	if x.changes = now; now.Size() == x.read {
		return nil
	}
	f, err := os.Open(s.changesFile())
	if err != nil {
		return err
	}
	defer f.Close() // only read
	data := make([]byte, now.Size()-x.read)
	if _, err := f.ReadAt(data, x.read); err != nil {
		return err
	}
	read := x.read + int64(bytes.LastIndexByte(data, '\n')) + 1 // the rest is still being written, or torn
	var news []*thread
	for line := range bytes.Lines(data[:read-x.read]) {
		var c change
		if fields, _, err := unseal(line); err != nil || json.Unmarshal(fields, &c) != nil {
			continue // recover reads the logs anyway
		}
		if c.Erased {
			x, news = newIndex(), nil
			s.index, x.changes = x, now
			continue
		}
		t := x.thread(s.threadsDir(), c.Dir)
		t.end, news = max(t.end, c.End), append(news, t)
	}
	x.read = read
	for _, t := range news {
		if x.complete && t.damage == nil {
			t.damage = s.load(t)
			x.complete = isPermanent(t.damage)
		}
	}
	return nil
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
			x.thread(s.threadsDir(), dir.Name())
		}
	}
	x.complete = true
	for _, t := range x.threads {
		f, err := s.fs.OpenFile(t.log(), os.O_RDONLY, 0)
		if err == nil {
			err = s.adopt(t, f, false)
			f.Close() // only read
		} else if t.end == 0 && errors.Is(err, fs.ErrNotExist) {
			err = nil // a process was killed while it created the thread
		} else {
			err = t.shortened(err)
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
