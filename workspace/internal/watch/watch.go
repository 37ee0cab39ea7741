// Package watch tells which directories may have changed since a moment, from the events of the kernel. It is for a scan
// that reads only these directories. A directory counts as unchanged only if the kernel watched it during the whole time.
// Everything else may have changed: a directory without a mark, and each directory after lost events.
//
// A [Watcher] has one queue of the kernel, of fanotify or, where the kernel refuses that, of inotify. The kernel appends an
// event before the system call that caused it returns, so an empty queue proves that the events of all completed calls were
// read. [Watcher.Sync] empties the queue. As a check that the kernel delivers events at all, it first changes a
// directory of its own, and fails unless it reads that event.
//
// These changes cause no event, so a watcher misses them:
//
//   - a store into a shared mapping, until the process unmaps the file
//   - a write through a hard link, if the other name was made while the file was watched, and its directory is not watched
//     or the name was removed again
//   - a write by another machine, which is why network file systems are refused
package watch

import "errors"

// Token is a moment in the queue of one watcher. The zero Token is before every event.
type Token struct {
	Watcher [16]byte // random, so that no token is valid after a restart or a reboot
	Seq     uint64
}

// Dir identifies a directory.
type Dir struct{ Dev, Ino uint64 }

// Stats are counts since a watcher began.
type Stats struct {
	Kind   string `json:"kind"`   // fanotify or inotify
	Dirs   int    `json:"dirs"`   // directories that it watches now
	Events int64  `json:"events"` // that the kernel reported
	Lost   int    `json:"lost"`   // how often all directories counted as changed, because events may have been lost
	Failed int    `json:"failed"` // directories that could not be watched
}

// ErrUnsupported is the error for a file system, a kernel or an operating system on which directories cannot be watched.
var ErrUnsupported = errors.New("this file system or kernel cannot watch directories")

// errClosed is the error of a closed watcher.
var errClosed = errors.New("the watcher is closed")

// errSilent is the error if the kernel did not report the watcher's own change.
var errSilent = errors.New("the kernel does not report events")

// errTooMany is the error for a directory beyond the number that one watcher may watch.
var errTooMany = errors.New("too many directories are watched")
