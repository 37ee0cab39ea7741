package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

func (t *thread) log() string { return filepath.Join(t.dir, "log.jsonl") }

// fresh returns a thread whose log was read to its end. A deleted one does not exist.
func (s *Store) fresh(op string, id segno.ThreadID) (*thread, error) {
	t := s.index.threads[nameOf(id)]
	if t == nil {
		return nil, notFound(op, string(id))
	}
	err := s.load(t)
	if info, statErr := os.Stat(t.log()); err == nil && t.end > 0 && (statErr != nil || info.Size() < t.end) {
		err = t.truncated(statErr)
	}
	if err == nil && (!t.Exists || t.Deleted) {
		err = notFound(op, string(id))
	}
	return t, err
}

// truncated is the error about a log that is shorter than it was when its last record was
// acknowledged, or that cannot be opened.
func (t *thread) truncated(err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return corrupt(t.log(), fmt.Errorf("the log was %d bytes long, and now it is shorter or gone", t.end))
}

// load reads a thread's log up to its known end.
func (s *Store) load(t *thread) error {
	if t.damage != nil || t.size >= t.end {
		return t.damage
	}
	f, err := os.Open(t.log())
	if err != nil {
		return t.truncated(err)
	}
	defer f.Close() // only read
	_, rest, err := s.read(t, f, t.end)
	if err == nil && t.size < t.end {
		err = t.damaged(fmt.Errorf("the log ends %d bytes behind its beginning", len(rest)))
	}
	return err
}

// loadAll loads every thread. It returns the errors about those that cannot be read.
func (s *Store) loadAll() (damage []error) {
	for _, t := range s.index.threads {
		if err := s.load(t); err != nil {
			damage = append(damage, fail("read thread", t.dir, err))
		}
	}
	slices.SortFunc(damage, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return damage
}

// read applies the records up to an offset of a log. It returns what changes has to say about
// them, and the bytes behind the last line break.
func (s *Store) read(t *thread, log io.ReaderAt, to int64) (added []change, rest []byte, err error) {
	in := bufio.NewReader(io.NewSectionReader(log, t.size, to-t.size))
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return added, line, nil
		}
		if err != nil {
			return added, nil, err
		}
		r, err := decode(line)
		if err == nil {
			err = s.index.apply(t, r, t.size+int64(len(line)))
		}
		if err != nil {
			return added, nil, t.damaged(err)
		}
		added = append(added, changeOf(t, r, t.size))
	}
}

func changeOf(t *thread, r *record, end int64) change {
	c := change{Dir: filepath.Base(t.dir), Order: r.Order, End: end}
	if r.Commit != nil {
		c.Commit = r.Commit.ID
	}
	return c
}

// damaged names the first record that could not be read.
func (t *thread) damaged(err error) error {
	if errors.Is(err, segno.KindNewer) {
		return err
	}
	return segno.Errorf(segno.KindCorrupt, "read thread", t.log(), "record %d at byte %d is damaged: %w", t.n, t.size, err).
		WithHint("put the log back from a backup; nothing was changed in it")
}

// openLog opens a log to append to it, and adopts what is behind its known end. It returns nil if
// there is no log yet.
func (s *Store) openLog(t *thread) (vfs.File, error) {
	if t.damage != nil {
		return nil, t.damage
	}
	f, err := s.fs.OpenFile(t.log(), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && t.end == 0 {
			return nil, nil
		}
		return nil, t.truncated(err)
	}
	if err := s.adopt(t, f, true); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// adopt reads what is behind the known end of a log. These are records whose writer did not live to
// announce them, or all records if changes was lost. Each becomes durable before it is announced.
//
// After them there may be the beginning of a record, which was never acknowledged. With repair it
// is kept in a torn file and cut off. The caller holds the store's lock.
func (s *Store) adopt(t *thread, log vfs.File, repair bool) error {
	info, err := log.Stat()
	if err == nil && info.Size() < t.end {
		err = t.truncated(nil)
	}
	if err == nil && (repair || info.Size() > t.end) {
		err = s.load(t)
	}
	if err != nil || info.Size() == t.end {
		return err
	}
	err = errors.Join(log.Sync(), s.fs.SyncDir(t.dir), s.fs.SyncDir(s.threadsDir()))
	if err != nil {
		return err
	}
	added, rest, err := s.read(t, log, info.Size())
	if len(added) > 0 {
		if err := s.announce(added); err != nil && repair {
			return err
		} // a reader may be on a disk that cannot be written
	}
	switch {
	case err != nil || len(rest) == 0:
		return err
	case !isTorn(rest):
		return t.damaged(errors.New("the log ends within it, and not as after a write that was interrupted"))
	case repair:
		return s.cutOff(t, log, rest)
	}
	return nil
}

// isTorn reports whether the end of a log is what an interrupted write leaves: the beginning of a
// record, and zeros where the length of the file arrived before the data.
func isTorn(end []byte) bool {
	began := bytes.TrimRight(end, "\x00")
	n := min(len(began), len(crcBegin))
	return string(began[:n]) == crcBegin[:n] && bytes.IndexByte(began, 0) < 0
}

// cutOff keeps the torn end of a log in a file of its thread, and cuts it off the log.
func (s *Store) cutOff(t *thread, log vfs.File, torn []byte) error {
	name := filepath.Join(t.dir, fmt.Sprintf("torn-%d-%s", t.n, checksum(torn)))
	if err := vfs.Replace(s.fs, name, torn, 0o600); err != nil {
		return err
	}
	if err := log.Truncate(t.size); err != nil {
		return err
	}
	return log.Sync()
}

// append makes a record durable, announces it and applies it. log is nil for a thread that has no
// log yet.
func (s *Store) append(t *thread, log vfs.File, r *record, entries []segno.Entry) error {
	r.N, r.Order = t.n, s.index.order+1
	if t.n == 0 {
		r.Format = version
	}
	line, err := encode(r, entries)
	if err == nil {
		r, err = decode(line) // a copy, and the proof that the line can be read
	}
	if err != nil {
		return segno.Errorf(segno.KindInvalid, "append record", t.log(), "cannot encode it: %w", err)
	}
	if log == nil {
		if err := s.mkdir(t.dir); err != nil {
			return err
		}
		if log, err = s.fs.OpenFile(t.log(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
		defer log.Close() // what was written is synced
	}
	if _, err = log.Write(line); err == nil {
		err = log.Sync()
	}
	if err == nil && t.n == 0 {
		err = s.fs.SyncDir(t.dir)
	}
	if err != nil {
		// Nobody was told of the record. If it cannot be cut off, the next writer adopts it.
		return errors.Join(err, log.Truncate(t.size))
	}
	end := t.size + int64(len(line))
	if err := s.announce([]change{changeOf(t, r, end)}); err != nil {
		return err // the record stays: changes may contain the line
	}
	s.index.threads[filepath.Base(t.dir)] = t
	return s.index.apply(t, r, end)
}
