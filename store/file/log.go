package file

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// writtenBack is the age at which nothing is in memory alone; Linux waits 30 s.
const writtenBack = time.Hour

// readOn reads what the log has behind the part that is known. The caller has the
// thread's turn and the log's lock; a writer also repairs a torn end.
func (s *Store) readOn(ctx context.Context, op string, t *thread, f vfs.File, writer bool) error {
	fi, err := f.Stat()
	if err != nil {
		return fail(op, t.path(), err)
	}
	s.mu.Lock()
	from, damaged := t.size, t.damage != nil
	s.mu.Unlock()
	var torn []byte
	if fi.Size() != from || from == 0 || damaged {
		if torn, err = s.readNews(ctx, op, t, f, from, fi.Size()); err != nil {
			return err
		}
		if err := s.checkHead(op, t); err != nil {
			return err
		}
	}
	if err := s.makeSure(t, f, fi.ModTime()); err != nil {
		return fail(op, t.path(), err)
	}
	if len(torn) > 0 && writer {
		return fail(op, t.path(), s.cutOff(t, f, torn))
	}
	return nil
}

// makeSure makes what was read durable, if whoever wrote it may have been killed
// before it was: nobody is told what a power cut could take back. What is old the
// kernel has written long since.
func (s *Store) makeSure(t *thread, f vfs.File, changed time.Time) error {
	s.mu.Lock()
	unsure, placed := t.unsure, t.placed
	s.mu.Unlock()
	if unsure && time.Since(changed) < writtenBack {
		if err := f.Sync(); err != nil {
			return err
		}
		if !placed {
			if err := s.fs.SyncDir(s.threadsDir()); err != nil {
				return err
			}
		}
	}
	s.settle(t, nil, false)
	return nil
}

// settle keeps how reading on ended.
func (s *Store) settle(t *thread, damage error, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.damage, t.unsure = damage, unsure
	t.placed = t.placed || t.n > 0 && !unsure
}

// readNews is readFrom, whose outcome it keeps: until it is settled nobody takes
// the thread for what it is.
func (s *Store) readNews(ctx context.Context, op string, t *thread, f io.ReaderAt, from, to int64) (torn []byte, err error) {
	torn, damage, err := s.readFrom(ctx, op, t, f, from, to)
	s.mu.Lock()
	unsure := t.unsure || t.size > from
	s.mu.Unlock()
	s.settle(t, damage, unsure)
	return torn, cmp.Or(err, damage)
}

// readFrom applies the records between two offsets. It returns a torn end, or
// what is damaged.
func (s *Store) readFrom(ctx context.Context, op string, t *thread, f io.ReaderAt, from, to int64) (torn []byte, damage, err error) {
	if to < from {
		return nil, corrupt(op, t.path(), fmt.Errorf("it was %d bytes long and is %d", from, to)), nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, to-from), int(min(max(to-from, 16), 1<<20)))
	for at := from; ; {
		if err := ctx.Err(); err != nil {
			return nil, nil, fail(op, t.path(), err)
		}
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, nil, fail(op, t.path(), err)
		}
		if len(line) == 0 && at > 0 {
			return nil, nil, nil
		}
		end := at + int64(len(line))
		if err == io.EOF {
			// A thread appears with its first record: that is never torn.
			if at > 0 && isTorn(line) {
				return line, nil, nil
			}
			return nil, s.damaged(op, t, at, errors.New("the log ends in it, and not as a write that was broken off")), nil
		}
		rec, err := decode(line[:len(line)-1])
		if err == nil {
			err = s.apply(t, rec, at, end)
		}
		if err != nil {
			return nil, s.damaged(op, t, at, err), nil
		}
		at = end
	}
}

// damaged names the record that could not be read.
func (s *Store) damaged(op string, t *thread, at int64, err error) error {
	if errors.Is(err, errNewer) {
		return fail(op, string(t.id), errNewer)
	}
	s.mu.Lock()
	n := t.n
	s.mu.Unlock()
	return segno.Errorf(segno.KindCorrupt, op, t.path(), "record %d at byte %d is damaged: %w", n, at, err).WithHint("put the log back from a backup; nothing was changed in it")
}

// isTorn reports whether the end of a log is what a write that was broken off
// leaves: the beginning of a record, which may be followed by zeros where the data
// did not arrive before the length.
func isTorn(end []byte) bool {
	began := bytes.TrimRight(end, "\x00")
	if len(began) < len(end) {
		return isBeginning(began)
	}
	// A record with something else in the place of its line break was whole once.
	if len(began) > 1 {
		if _, _, err := split(began[:len(began)-1]); err == nil {
			return false
		}
	}
	return isBeginning(began)
}

// isBeginning reports whether a record can begin so.
func isBeginning(b []byte) bool {
	const shape = crcBegin + "########" + crcEnd + briefBegin
	for i := range min(len(b), len(shape)) {
		hexDigit := '0' <= b[i] && b[i] <= '9' || 'a' <= b[i] && b[i] <= 'f'
		if shape[i] != b[i] && (shape[i] != '#' || !hexDigit) {
			return false
		}
	}
	return bytes.IndexByte(b, 0) < 0
}

// cutOff cuts a torn end off the log once it is kept beside. It has the same name
// if it is done again.
func (s *Store) cutOff(t *thread, f vfs.File, torn []byte) error {
	s.mu.Lock()
	size, n := t.size, t.n
	s.mu.Unlock()
	name := filepath.Join(t.dir, fmt.Sprintf("torn-%d-%s", n, checksum(torn)))
	if err := vfs.Replace(s.fs, name, torn, 0o600); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}
