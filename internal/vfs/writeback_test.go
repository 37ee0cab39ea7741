package vfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/vfs"
)

// TestWriteBackChangesNothing gives the hint for a part of a file, for the whole file, and beyond
// its end.
func TestWriteBackChangesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := vfs.OS.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{2, 7, 1 << 20} {
		vfs.WriteBack(f, 0, length)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); string(got) != "content" || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
}
