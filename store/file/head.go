package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno/internal/vfs"
)

// headName is the file that holds a thread's logHead.
const headName = "head.jsonl"

// logHead is what a log has at least: a log that is shorter has lost records that were
// acknowledged. It is written after each record, in place, in one of two slots by turns, so
// that a crash in the midst of a write leaves the other slot. It is not synced: after a
// power cut it may be behind the log, which says no more than that the log is longer.
type logHead struct {
	N    int64  `json:"n"`    // how many records
	Size int64  `json:"size"` // how many bytes
	Last string `json:"last"` // the checksum of the last record
}

// slotSize is the length of a slot, which is a line of JSON.
const slotSize = bodyAt + 67

func (h logHead) slot() []byte {
	body := fmt.Sprintf(`"n":%15d,"size":%20d,"last":%10q}`, h.N, h.Size, h.Last)
	return []byte(crcBegin + checksum([]byte(body)) + crcEnd + body + "\n")
}

// readSlot reads a slot. One that was never written, or not to its end, is not ok.
func readSlot(slot []byte) (h logHead, ok bool) {
	if len(slot) != slotSize || string(slot[len(crcBegin):len(crcBegin)+crcHex]) != checksum(slot[bodyAt:slotSize-1]) {
		return h, false
	}
	err := json.Unmarshal(slot, &h)
	return h, err == nil
}

// readHead returns the newest head that was written of a log, and which slots are damaged.
// A log of an older version has none, which reads as the zero head.
func (t *thread) readHead() (newest logHead, damaged []int, err error) {
	data, err := os.ReadFile(filepath.Join(t.dir, headName))
	if errors.Is(err, fs.ErrNotExist) {
		return newest, nil, nil
	}
	if err != nil {
		return newest, nil, err
	}
	for n := range 2 {
		slot := data[min(n*slotSize, len(data)):min((n+1)*slotSize, len(data))]
		h, ok := readSlot(slot)
		if !ok {
			damaged = append(damaged, n)
		}
		if ok && h.N > newest.N {
			newest = h
		}
	}
	if newest.N == 1 && len(data) == slotSize {
		damaged = nil // the second slot was never written
	}
	return newest, damaged, nil
}

// writeHead records how far the log is written.
func (s *Store) writeHead(dir string, h logHead) error {
	f, err := s.fs.OpenFile(filepath.Join(dir, headName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(writeSlot(f, h), f.Close())
}

func writeSlot(f vfs.File, h logHead) error {
	if _, err := f.Seek((h.N-1)%2*int64(slotSize), io.SeekStart); err != nil {
		return err
	}
	_, err := f.Write(h.slot())
	return err
}

// checkHead compares the records read from a log with the log's head. The caller holds the
// log's lock, so no writer has written only one of the two.
func (s *Store) checkHead(op string, t *thread) error {
	want, _, err := t.readHead()
	if err != nil {
		return fail(op, filepath.Join(t.dir, headName), err)
	}
	s.mu.Lock()
	have := logHead{N: t.n, Size: t.size, Last: t.last}
	s.mu.Unlock()
	if want.N < have.N || want == have {
		return nil
	}
	damage := corrupt(op, t.path(), fmt.Errorf("it had %d records in %d bytes, and %d records in %d bytes can be read", want.N, want.Size, have.N, have.Size))
	s.settle(t, damage, false)
	return damage
}
