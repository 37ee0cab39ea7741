package memdir

import (
	"os"
	"strings"
	"testing"
)

func TestUse(t *testing.T) {
	for _, x := range []struct{ name, tmp, soak, want string }{
		{"the user's choice stays", "/var/tmp", "", "/var/tmp"},
		{"a whole run is on the disk", "", "1", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Setenv("GOTMPDIR", "")
			t.Setenv("TMPDIR", x.tmp)
			t.Setenv("SEGNO_SOAK", x.soak)
			if Use(); os.Getenv("TMPDIR") != x.want {
				t.Errorf("TMPDIR is %q", os.Getenv("TMPDIR"))
			}
		})
	}
	t.Run("in memory if there is a directory", func(t *testing.T) {
		t.Setenv("GOTMPDIR", "")
		t.Setenv("TMPDIR", "")
		t.Setenv("SEGNO_SOAK", "")
		Use()
		if got := strings.HasPrefix(t.TempDir(), path+"/"); got != isUsable(path) {
			t.Errorf("a temporary directory is in memory: %t; memory can be used: %t", got, isUsable(path))
		}
	})
}

func TestADirectoryOfADiskIsNotUsed(t *testing.T) {
	for _, dir := range []string{"/proc", "/nonesuch"} {
		if isUsable(dir) {
			t.Errorf("%s is used", dir)
		}
	}
}
