package debian

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAProgramWithSeveralNames finds redis-server as Debian installs it: as a link to redis-check-rdb.
func TestAProgramWithSeveralNames(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, bin := filepath.Join(dir, "files"), filepath.Join(dir, "bin")
	for _, d := range []string{files, bin} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"redis-server": "redis-check-rdb", "postgres": "postgres"} {
		if err := os.WriteFile(filepath.Join(files, target), nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(files, target), filepath.Join(bin, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"redis-server": filepath.Join(bin, "redis-server"), "postgres": filepath.Join(files, "postgres")} {
		if got, err := resolve(filepath.Join(bin, name)); err != nil || got.File != want {
			t.Errorf("%s is %s, %v; want %s", name, got.File, err, want)
		}
	}
}
