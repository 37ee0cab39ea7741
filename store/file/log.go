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
	info, err := os.Stat(t.log())
	switch {
	case t.damage != nil:
		return nil, t.damage
	case t.end > 0 && (err != nil || info.Size() < t.end):
		return nil, t.shortened(err)
	case !t.Exists || t.Deleted:
		return nil, notFound(op, string(id))
	}
	return t, nil
}

// shortened is the error about a log that is shorter than it was when its last record was
// announced, or that cannot be opened.
func (t *thread) shortened(err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return corrupt(t.log(), fmt.Errorf("the log was %d bytes long, and now it is shorter or gone", t.end))
}

// damage returns the errors about the threads that cannot be read.
func (x *index) damage() (all []error) {
	for _, t := range x.threads {
		if t.damage != nil {
			all = append(all, t.damage)
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}

// load reads the announced records of a log.
func (s *Store) load(t *thread) error {
	f, err := os.Open(t.log())
	if err != nil {
		return t.shortened(err)
	}
	defer f.Close() // only read
	if _, err = s.read(t, f, t.end); err == nil && t.size < t.end {
		err = t.damaged(errors.New("the log ends within it"))
	}
	return err
}

// read applies the records up to an offset of a log. It returns the bytes behind the last line break.
func (s *Store) read(t *thread, log io.ReaderAt, to int64) (rest []byte, err error) {
	in := bufio.NewReader(io.NewSectionReader(log, t.size, to-t.size))
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
		r, err := decode(line)
		if err == nil {
			err = s.index.apply(t, r, t.size+int64(len(line)))
		}
		if err != nil {
			return nil, t.damaged(err)
		}
	}
}

// damaged names the first record that could not be read.
func (t *thread) damaged(err error) error {
	if errors.Is(err, segno.KindNewer) {
		return err
	}
	return segno.Errorf(segno.KindCorrupt, "read thread", t.log(), "record %d at byte %d is damaged: %w", t.n, t.size, err).
		WithHint("put the log back from a backup; nothing was changed in it")
}

// openLog opens a log and adopts the records that are not announced. It returns nil if there is no log
// yet: a process may have been killed while it created the thread.
func (s *Store) openLog(t *thread, flag int) (vfs.File, error) {
	f, err := s.fs.OpenFile(t.log(), flag, 0)
	if t.end == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, t.shortened(err)
	}
	if err := s.adopt(t, f, flag != os.O_RDONLY); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// adopt reads the rest of a log. If there are records behind its known end, their process did not
// live to announce them: adopt makes them durable and announces them.
//
// After them there may be the beginning of a record, which was never acknowledged. With repair it
// is kept in a torn file and cut off. The caller holds the store's lock.
func (s *Store) adopt(t *thread, log vfs.File, repair bool) error {
	info, err := log.Stat()
	if err == nil && info.Size() < t.end {
		err = t.shortened(nil)
	}
	if err != nil || info.Size() == t.size {
		return err
	}
	if info.Size() > t.end {
		if err := errors.Join(log.Sync(), s.fs.SyncDir(t.dir), s.fs.SyncDir(s.threadsDir())); err != nil {
			return err
		}
	}
	rest, err := s.read(t, log, info.Size())
	if t.size > t.end {
		t.end = t.size
		if err := s.announce(change{Dir: filepath.Base(t.dir), End: t.end}); err != nil && !isReadOnly(err) {
			return err
		}
	}
	switch {
	case err != nil || len(rest) == 0:
		return err
	case t.size < t.end || !isTorn(rest):
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

// append makes a record durable, announces it and applies it, in that order: other processes must not see
// a record that a power cut can still take. log is nil for a thread that has no log yet.
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
		if err := vfs.MkdirAllSynced(s.fs, t.dir); err != nil {
			return err
		}
		if log, err = s.fs.OpenFile(t.log(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
		defer log.Close() // the record is synced
	}
	if _, err = log.Write(line); err == nil {
		err = log.Sync()
	}
	if err == nil && t.n == 0 {
		err = s.fs.SyncDir(t.dir)
	}
	if err != nil {
		// No caller knows of the record yet. If it cannot be cut off, the next writer adopts it.
		return errors.Join(err, log.Truncate(t.size))
	}
	end := t.size + int64(len(line))
	if err := s.announce(change{Dir: filepath.Base(t.dir), End: end}); err != nil {
		return err // the record stays: changes may contain the line
	}
	t.end = end
	return s.index.apply(t, r, end)
}
