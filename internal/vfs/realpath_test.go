package vfs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRealPath resolves paths of which a part exists. A relative path stays relative.
func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": "real", "real/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for path, want := range map[string]string{
		dir + "/link":           dir + "/real",
		dir + "/link/":          dir + "/real",
		dir + "/link/a/b":       dir + "/real/a/b",
		dir + "/link/../real/a": dir + "/real/a",
		dir + "/link/loop/a":    dir + "/real/loop/a", // it cannot be resolved
		"/none of segno/a":      "/none of segno/a",
		"link/a":                "real/a",
		"none/a":                "none/a",
	} {
		if got := RealPath(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
