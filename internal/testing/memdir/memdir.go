// Package memdir makes the temporary directories of tests in memory. Tests call fsync
// thousands of times, and a disk takes more time for them than all the rest of the tests.
//
// A TestMain calls [Use], or [UseIfShort] if the subject of its tests is the disk. Neither
// changes a TMPDIR or GOTMPDIR that the user set, nor the directory of a run with SEGNO_SOAK.
package memdir

import (
	"flag"
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// path is the file system in memory that Linux mounts for every user.
const path = "/dev/shm"

// least is the number of bytes that must be free in memory. All tests at once need about a
// tenth of it.
const least = 2 << 30

// Use makes the temporary directories of this process and its children in memory, if this
// machine has enough of it. It panics if it cannot set TMPDIR.
func Use() {
	if os.Getenv("TMPDIR") != "" || os.Getenv("GOTMPDIR") != "" || soak.IsWhole() || !isUsable(path) {
		return
	}
	if err := os.Setenv("TMPDIR", path); err != nil {
		panic(err)
	}
}

// Path returns a directory in memory, or "" if this machine does not have enough memory.
func Path() string {
	if !isUsable(path) {
		return ""
	}
	return path
}

// UseIfShort is Use for a run with -short. Other runs stay on the disk. UseIfShort parses the
// flags of the test.
func UseIfShort() {
	if !flag.Parsed() {
		flag.Parse()
	}
	if testing.Short() {
		Use()
	}
}
