package database

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fingerprint is evidence that a SQLite database did not change. Each committed transaction changes a part of it that
// SQLite's file format promises:
//
//   - In a rollback mode, it is the change counter in the head of the database.
//   - In WAL mode, it is the head of the index of the log ("-shm"): the number of valid frames, the checksum of the last
//     one, and the salts of the log. A checkpoint that begins the log again changes the salts, and one that copies frames
//     into the database changes its modification time.
//
// A program that keeps the database locked (PRAGMA locking_mode=exclusive) increments the counter only once, and keeps
// the index in its memory. It still writes to the database or the log at each commit, which changes the modification
// time.
//
// The ctimes of the log and of the journal are not evidence. If SQLite runs as root, it changes the owner of these
// files to the owner of the database each time that it opens them, even to read.
type fingerprint string

// The times of files advance in ticks. A second change within the same tick may not change the times, so a fingerprint
// of files that just changed proves nothing.
const (
	tick       = 50 * time.Millisecond
	coarseTick = 2500 * time.Millisecond // for a file system whose times are whole seconds
)

// sidecars are the suffixes of the files beside a SQLite database.
func sidecars() []string { return []string{"-wal", "-shm", "-journal"} }

// takeFingerprint returns the fingerprint of a database. proves is false if the files changed too
// recently; see the ticks above.
func takeFingerprint(path string, now time.Time) (f fingerprint, proves bool, err error) {
	var text strings.Builder
	proves = true
	for _, suffix := range append([]string{""}, sidecars()...) {
		var st unix.Stat_t
		if err := unix.Lstat(path+suffix, &st); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			text.WriteString("none\n")
			continue
		} else if err != nil {
			return "", false, err
		}
		head, err := readPart(path+suffix, 136) // both copies of the log index's head
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
		size, ctime, mtime := st.Size, unix.TimespecToNsec(st.Ctim), unix.TimespecToNsec(st.Mtim)
		switch suffix {
		case "-shm": // it is a memory map: its times change late, and readers also change it
			head, size, ctime, mtime = head[:min(len(head), 96)], 0, 0, 0
		case "-wal", "-journal":
			ctime = 0
		}
		fmt.Fprintf(&text, "%d %d %d %d %d %x\n", st.Dev, st.Ino, size, mtime, ctime, sha256.Sum256(head))
		last := max(ctime, mtime)
		window := tick
		if last%int64(time.Second) == 0 {
			window = coarseTick
		}
		if suffix != "-shm" && last >= now.Add(-window).UnixNano() {
			proves = false
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	return fingerprint(fmt.Sprintf("%x", sum)), proves, nil
}

// fileIdentity returns evidence that the file of a database did not change, even if the files beside it did. Like a
// fingerprint, it proves nothing for a file that just changed.
func fileIdentity(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, unix.TimespecToNsec(st.Mtim), unix.TimespecToNsec(st.Ctim)), nil
}

// readPart returns at most the first n bytes of a regular file.
func readPart(path string, n int) ([]byte, error) {
	f, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(n)))
	return data, err
}

// openPlain opens a regular file. It does not wait for the writer of a FIFO.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid, f.Close())
	}
	return f, nil
}
