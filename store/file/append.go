package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// hold takes a thread's turn and, if it exists, opens its log to append to, locks
// it and reads on in it. The file is nil if there is no such thread.
func (s *Store) hold(ctx context.Context, op string, t *thread) (f vfs.File, release func(), err error) {
	done, err := take(ctx, op, t.turn)
	if err != nil {
		return nil, nil, err
	}
	f, err = s.fs.OpenFile(t.path(), os.O_RDWR|os.O_APPEND, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = nil
		_, err = s.sizeOf(op, t)
	case err != nil:
		f, err = nil, fail(op, t.path(), err)
	default:
		if err = s.lock(ctx, op, f, true); err == nil {
			err = s.readOn(ctx, op, t, f, true)
		}
	}
	release = func() {
		if f != nil {
			f.Close() // what was written is synced; this only lets go of the lock
		}
		done()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return f, release, nil
}

// update appends a record that is no commit to a thread that exists.
func (s *Store) update(ctx context.Context, op string, id segno.ThreadID, change func(t *thread) (record, error)) error {
	t, err := s.fresh(ctx, op, id)
	if err != nil {
		return err
	}
	f, release, err := s.hold(ctx, op, t)
	if err != nil {
		return err
	}
	defer release()
	if f == nil || t.hidden {
		return notFound(op, string(id))
	}
	r, err := change(t)
	if err != nil {
		return err
	}
	line, err := encode(s.stamp(t, r), nil)
	if err != nil {
		return invalid(op, string(id), "it does not encode: %w", err)
	}
	return s.append(op, t, f, line)
}

// errMade says that a thread that was to be made is there.
var errMade = errors.New("the thread is there")

// create makes a thread with its first record: all of it or nothing.
func (s *Store) create(op string, t *thread, line []byte) error {
	r, err := decode(line[:len(line)-1])
	if err != nil {
		return invalid(op, string(t.id), "it does not read back: %w", err)
	}
	if err := s.announce(t, r, 0, int64(len(line))); err != nil {
		return fail(op, s.changes.path, err)
	}
	temp := filepath.Join(s.threadsDir(), ".new-"+rand.Text())
	err = s.writeThread(temp, line)
	if err == nil {
		err = s.writeHead(temp, logHead{N: 1, Size: int64(len(line)), Last: r.CRC})
	}
	if err == nil {
		err = s.fs.Rename(temp, t.dir)
	}
	if err != nil {
		_ = s.fs.Remove(filepath.Join(temp, headName))
		_ = s.fs.Remove(filepath.Join(temp, logName)) // strays at worst; the first error is the one to tell
		_ = s.fs.Remove(temp)
		if errors.Is(err, fs.ErrExist) {
			return errMade
		}
		return fail(op, t.dir, fmt.Errorf("make thread: %w", err))
	}
	if err := s.fs.SyncDir(s.threadsDir()); err != nil {
		return fail(op, t.dir, err)
	}
	err = s.apply(t, r, 0, int64(len(line)))
	s.settle(t, nil, false)
	return err
}

// writeThread writes a thread's directory.
func (s *Store) writeThread(dir string, line []byte) error {
	if err := s.fs.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := s.writeSynced(filepath.Join(dir, logName), line); err != nil {
		return err
	}
	return s.fs.SyncDir(dir)
}

// writeSynced writes a new file.
func (s *Store) writeSynced(name string, data []byte) error {
	f, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// append makes a record durable and applies it. The caller has the thread's turn
// and the log's exclusive lock, and has read on.
func (s *Store) append(op string, t *thread, f vfs.File, line []byte) error {
	r, err := decode(line[:len(line)-1])
	if err != nil {
		return segno.Errorf(segno.KindInvalid, op, string(t.id), "it does not read back: %w", err)
	}
	at := t.size
	end := at + int64(len(line))
	if err := s.announce(t, r, at, end); err != nil {
		return fail(op, s.changes.path, err)
	}
	if _, err = f.Write(line); err == nil {
		err = f.Sync()
	}
	if err != nil {
		// Nobody has seen it, for we have the lock. If it cannot be taken back,
		// whoever comes next finds a whole record or a torn one.
		return fail(op, t.path(), errors.Join(err, f.Truncate(at)))
	}
	if err := s.writeHead(t.dir, logHead{N: r.N + 1, Size: end, Last: r.CRC}); err != nil {
		return fail(op, t.path(), err) // the record stays, for the head may name it by now
	}
	return s.apply(t, r, at, end)
}
