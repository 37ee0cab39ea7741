package database_test

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asOtherUser calls do with the rights of a user that owns no file, if the test runs as root, because a mode does not stop root.
func asOtherUser(t *testing.T, do func()) {
	t.Helper()
	const nobody = 65534
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // the rights are those of the thread
		defer runtime.UnlockOSThread()
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = unix.SetfsuidRetUid(0) }()
	}
	do()
}
