//go:build !linux || !(amd64 || arm64 || loong64 || riscv64) || portable

package workspace

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/vfs"
)

// This file contains the portable counterparts of platform_linux.go. macOS uses them; the tag
// portable selects them on Linux for tests. They cannot detect that a file is open for writing
// or consists of holes, and they copy by reading and writing.

const searchOnly = 0

func foldsNames(*dirHandle) bool          { return true } // macOS ignores case and normalises Unicode by default
func hasOpenat2(int) bool                 { return false }
func openat2(int, string) (int, error)    { return -1, errors.ErrUnsupported }
func (f *fileHandle) isHole() bool        { return false }
func writersOf(int) writers               { return unknownWriters }
func reflink(vfs.File, *fileHandle) error { return errors.ErrUnsupported }

// syncAll makes all written data durable. Sync has a result on macOS only.
func syncAll(int) error {
	unix.Sync()
	return nil
}

func newClock(_ *dirHandle, root stat) clock {
	return clock{dev: root.dev, start: time.Now().UnixNano(), tick: unknownTick}
}

func copyInKernel(vfs.File, *fileHandle) (done bool, err error) { return false, nil }

// list has the contract of list in platform_linux.go. It opens the directory again, because the
// position in d may be at the end.
func (d *dirHandle) list(_ []byte, visit func(name []byte, st *stat, err error)) error {
	fd, err := openat(d.fd, ".", unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if st, err := d.lstat(name); !isGone(err) {
			visit([]byte(name), &st, err)
		}
	}
	return err
}
