package archive

import (
	"os"
	"syscall"
	"testing"
)

// TestMain sets the usual umask, because tests compare the permissions of loaded files.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}
