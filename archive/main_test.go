package archive

import (
	"os"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestMain sets the usual umask, because tests compare the permissions of loaded files.
func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	syscall.Umask(0o022)
	os.Exit(m.Run())
}
