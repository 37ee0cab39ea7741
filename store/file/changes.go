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
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// change is a line of the file changes. A writer appends it once the record in the log is durable.
// The lines inform other processes which logs have become longer. They also prove that a log has
// lost records, if it is shorter than its newest line records.
type change struct {
	Dir    string `json:"dir,omitempty"`    // the directory of the thread
	End    int64  `json:"end,omitempty"`    // the length of its log
	Erased bool   `json:"erased,omitempty"` // Erase is rewriting logs: ignore all earlier lines
}

func (s *disk) changesFile() string { return filepath.Join(s.dir, "changes") }

// refresh reads the lines that other processes have added to changes, and the records that these
// announce. If it cannot continue where it stopped, it begins a new index, which is incomplete.
func (s *disk) refresh() error {
	now, err := os.Stat(s.changesFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.forget()
		s.changes, s.read, s.complete = nil, 0, !s.exists()
		return nil
	case err != nil:
		return err
	case s.changes == nil || !os.SameFile(s.changes, now) || now.Size() < s.read:
		s.forget()
		s.read = 0
	}
	s.changes = now
	lines, err := s.readChanges(now.Size())
	if err != nil {
		return err
	}
	announced := map[*threadlog.Thread]bool{}
	for _, c := range lines {
		if c.Erased {
			s.forget()
			announced = map[*threadlog.Thread]bool{}
			continue
		}
		t := s.index.Thread(c.Dir)
		t.End, announced[t] = max(t.End, c.End), true
	}
	for t := range announced {
		if s.complete && t.Damage == nil { // otherwise recover reads all logs
			t.Damage = s.load(t)
			s.complete = isPermanent(t.Damage)
		}
	}
	return nil
}

// forget begins a new index. The caller must then read all logs.
func (s *disk) forget() {
	s.index, s.complete = threadlog.NewIndex(nameOf[segno.ThreadID]), false
}

// readChanges returns the lines of changes between the part that was already read and an offset. It
// skips a line that is damaged or still being written.
func (s *disk) readChanges(to int64) (lines []change, err error) {
	if to == s.read {
		return nil, nil
	}
	f, err := os.Open(s.changesFile())
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written, so the error does not matter
	data := make([]byte, to-s.read)
	if _, err := f.ReadAt(data, s.read); err != nil {
		return nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	s.read += int64(len(data))
	for line := range bytes.Lines(data) {
		var c change
		if fields, _, err := unseal(line); err == nil && json.Unmarshal(fields, &c) == nil {
			lines = append(lines, c)
		}
	}
	return lines, nil
}

// recover reads all logs. It announces records that are unannounced because their process was killed
// or because changes was removed. The caller must hold the store's lock.
//
// If a thread cannot be read, recover still reads the others. Unless the thread is damaged, the
// index stays incomplete, so that the next call tries again.
func (s *disk) recover() error {
	dirs, err := os.ReadDir(s.threadsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range dirs {
		if !strings.HasPrefix(dir.Name(), ".") && dir.IsDir() {
			s.index.Thread(dir.Name())
		}
	}
	s.complete = true
	for _, t := range s.index.Threads {
		log, err := s.openLog(t, os.O_RDONLY)
		if log != nil {
			log.Close() // nothing was written, so the error does not matter
		}
		t.Damage = threadlog.Fail("read thread", s.threadDir(t), err)
		s.complete = s.complete && isPermanent(t.Damage)
	}
	return nil
}

// isPermanent reports whether a retry would return the same result.
func isPermanent(err error) bool {
	return err == nil || errors.Is(err, segno.KindCorrupt) || errors.Is(err, segno.KindNewer)
}

// announce appends a line to changes. Only the line of an erasure must itself be durable, because
// other lines can be made from the logs. The caller must hold the store's lock and have refreshed
// the index.
func (s *disk) announce(c change) error {
	fields, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := s.fs.OpenFile(s.changesFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // where it matters, the file is synced
	// Begin with a line break, so that a line torn by a crash damages only itself.
	if _, err = f.Write(append([]byte("\n"), seal(fields)...)); err == nil && c.Erased {
		err = errors.Join(f.Sync(), s.fs.SyncDir(s.dir))
	}
	now, statErr := f.Stat()
	if err == nil && statErr == nil {
		s.changes, s.read = now, now.Size()
	}
	return errors.Join(err, statErr)
}
