package archive

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/vfs"
)

// TestFilesOfKilledProcessesAreRemoved writes an archive beside old and new temporary files. Another
// process uses one of them.
func TestFilesOfKilledProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	var got []string
	for name, age := range map[string]time.Time{
		".segno-ABCDEFGHIJKLMNOPQRSTUVWXYZ": old, ".segno-BBCDEFGHIJKLMNOPQRSTUVWXYZ": old, ".segno-CBCDEFGHIJKLMNOPQRSTUVWXYZ": time.Now(),
		".segno-abcdefghijklmnopqrstuvwxyz": old, ".segno-notes": old, "mine": old,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, age, age); err != nil {
			t.Fatal(err)
		}
	}
	used, err := os.Open(filepath.Join(dir, ".segno-BBCDEFGHIJKLMNOPQRSTUVWXYZ"))
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	if err := vfs.Lock(t.Context(), used, 0); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, "run.ckpt"), State{}, WriteOptions{})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff([]string{".segno-BBCDEFGHIJKLMNOPQRSTUVWXYZ", ".segno-CBCDEFGHIJKLMNOPQRSTUVWXYZ", ".segno-abcdefghijklmnopqrstuvwxyz", ".segno-notes", "mine", "run.ckpt"}, got); diff != "" {
		t.Error(diff)
	}
}
