package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

func (s *disk) threadDir(t *threadlog.Thread) string { return filepath.Join(s.threadsDir(), t.Name) }

func (s *disk) logFile(t *threadlog.Thread) string { return filepath.Join(s.threadDir(t), "log.jsonl") }

// Check implements [threadlog.Logs].
func (s *disk) Check(t *threadlog.Thread) error {
	info, err := os.Stat(s.logFile(t))
	if t.End > 0 && (err != nil || info.Size() < t.End) {
		return s.shortened(t, err)
	}
	return nil
}

// shortened returns the error for a log that cannot be opened, or that is shorter than it was when its
// last record was announced.
func (s *disk) shortened(t *threadlog.Thread, err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return corrupt(s.logFile(t), fmt.Errorf("the log was %d bytes long, and now it is shorter or missing", t.End))
}

// load reads the announced records of a log.
func (s *disk) load(t *threadlog.Thread) error {
	f, err := os.Open(s.logFile(t))
	if err != nil {
		return s.shortened(t, err)
	}
	defer f.Close() // nothing was written, so the error does not matter
	if _, err = s.readLog(t, f, t.End); err == nil && t.Size < t.End {
		err = s.damaged(t, errors.New("the log ends within it"))
	}
	return err
}

// readLog applies the records of a log up to an offset. It returns the bytes after the last line break.
func (s *disk) readLog(t *threadlog.Thread, log io.ReaderAt, to int64) (rest []byte, err error) {
	in := bufio.NewReader(io.NewSectionReader(log, t.Size, to-t.Size))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
		r, err := decode(line)
		if err == nil {
			err = s.index.Apply(t, r, t.Size+int64(len(line)))
		}
		if err != nil {
			return nil, s.damaged(t, err)
		}
	}
}

// damaged returns an error that names the first record that could not be read.
func (s *disk) damaged(t *threadlog.Thread, err error) error {
	if errors.Is(err, segno.KindNewer) {
		return err
	}
	return segno.Errorf(segno.KindCorrupt, "read thread", s.logFile(t), "record %d at byte %d is damaged: %w", t.Records, t.Size, err).
		WithHint("put the log back from a backup; nothing was changed in it")
}

// openLog opens a log and adopts the records that are not announced. It returns nil if there is no log
// yet, because a process may have been killed while it created the thread.
func (s *disk) openLog(t *threadlog.Thread, flag int) (vfs.File, error) {
	f, err := s.fs.OpenFile(s.logFile(t), flag, 0)
	if t.End == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.shortened(t, err)
	}
	if err := s.adopt(t, f, flag != os.O_RDONLY); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open implements [threadlog.Logs].
func (s *disk) Open(t *threadlog.Thread) (err error) {
	s.opened, err = s.openLog(t, os.O_RDWR|os.O_APPEND)
	return err
}

// adopt reads the rest of a log. Records after its known end are from a process that was killed before it
// announced them: adopt makes them durable and announces them.
//
// An incomplete record may follow, which was never acknowledged. If repair is set, adopt copies it to a
// torn file and removes it from the log. The caller must hold the store's lock.
func (s *disk) adopt(t *threadlog.Thread, log vfs.File, repair bool) error {
	info, err := log.Stat()
	if err == nil && info.Size() < t.End {
		err = s.shortened(t, nil)
	}
	if err != nil || info.Size() == t.Size {
		return err
	}
	if info.Size() > t.End {
		if err := errors.Join(log.Sync(), s.fs.SyncDir(s.threadDir(t)), s.fs.SyncDir(s.threadsDir())); err != nil {
			return err
		}
	}
	rest, err := s.readLog(t, log, info.Size())
	if t.Size > t.End {
		t.End = t.Size
		if err := s.announce(change{Dir: t.Name, End: t.End}); err != nil && !isReadOnly(err) {
			return err
		}
	}
	switch {
	case err != nil || len(rest) == 0:
		return err
	case t.Size < t.End || !isTorn(rest):
		return s.damaged(t, errors.New("the log ends within it, and not because of an interrupted write"))
	case repair:
		return s.cutOff(t, log, rest)
	}
	return nil
}

// isTorn reports whether an interrupted write can have left this end of a log: the beginning of a record,
// followed by zeros if the length of the file became durable before the data.
func isTorn(end []byte) bool {
	began := bytes.TrimRight(end, "\x00")
	n := min(len(began), len(crcBegin))
	return string(began[:n]) == crcBegin[:n] && bytes.IndexByte(began, 0) < 0
}

// cutOff copies the torn end of a log to a file of its thread, and removes it from the log.
func (s *disk) cutOff(t *threadlog.Thread, log vfs.File, torn []byte) error {
	name := filepath.Join(s.threadDir(t), fmt.Sprintf("torn-%d-%s", t.Records, checksum(torn)))
	if err := vfs.Replace(s.fs, name, torn, 0o600); err != nil {
		return err
	}
	if err := log.Truncate(t.Size); err != nil {
		return err
	}
	return log.Sync()
}

// Append makes a record durable, then announces it, then applies it. The order matters because other
// processes must not read a record that a power cut can still remove.
func (s *disk) Append(t *threadlog.Thread, r *threadlog.Record, entries []segno.Entry) error {
	if t.Records == 0 {
		r.Format = version
	}
	line, err := encode(r, entries)
	if err == nil {
		r, err = decode(line) // a copy, which also proves that the line can be read
	}
	if err != nil {
		return segno.Errorf(segno.KindInvalid, "append record", s.logFile(t), "cannot encode it: %w", err)
	}
	if s.opened == nil {
		if err := vfs.MkdirAllSynced(s.fs, s.threadDir(t)); err != nil {
			return err
		}
		if s.opened, err = s.fs.OpenFile(s.logFile(t), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
	}
	if _, err = s.opened.Write(line); err == nil {
		err = s.opened.Sync()
	}
	if err == nil && t.Records == 0 {
		err = s.fs.SyncDir(s.threadDir(t))
	}
	if err != nil {
		// No caller knows the record yet. If it cannot be cut off, the next writer adopts it.
		return errors.Join(err, s.opened.Truncate(t.Size))
	}
	end := t.Size + int64(len(line))
	if err := s.announce(change{Dir: t.Name, End: end}); err != nil {
		return err // the record stays: changes may contain the line
	}
	t.End = end
	return s.index.Apply(t, r, end)
}

// ReadEntries implements [threadlog.Logs].
func (s *disk) ReadEntries(ctx context.Context, path []*threadlog.Commit, nodes []segno.Node) error {
	logs := map[*threadlog.Thread]*os.File{}
	defer func() {
		for _, log := range logs {
			log.Close() // nothing was written, so the error does not matter
		}
	}()
	for i, c := range path {
		if c.Count == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		log := logs[c.Log]
		if log == nil {
			var err error
			if log, err = os.Open(s.logFile(c.Log)); err != nil {
				return err
			}
			logs[c.Log] = log
		}
		line := make([]byte, c.End-c.At)
		if _, err := log.ReadAt(line, c.At); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var err error
		if nodes[i].Entries, err = decodeEntries(line); err != nil {
			return corrupt(string(c.ID), err)
		}
	}
	return nil
}
