package archive

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// TestOnlyRegularFilesAreOpened opens FIFOs and directories. Opening a FIFO must not wait for a writer.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.ckpt")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, t.TempDir(), "/dev/zero"} {
		if _, err := Open(name); !errors.Is(err, segno.KindCorrupt) {
			t.Errorf("open %s: %v", name, err)
		}
		if _, err := OpenSealed(name); !errors.Is(err, segno.KindCorrupt) {
			t.Errorf("open sealed %s: %v", name, err)
		}
		if _, err := IsSealed(name); !errors.Is(err, segno.KindCorrupt) {
			t.Errorf("look at %s: %v", name, err)
		}
	}
}
