package workspaces_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/store/memory"
)

// nobody is a user that owns no file.
const nobody = 65534

// asNobody calls do with the rights of another user, if the test runs as root, who may remove each file.
func asNobody(do func()) {
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // the rights are those of the thread
		defer runtime.UnlockOSThread()
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0) // it returns no error
		defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0) }()
	}
	do()
}

// TestTrashOfAnotherUser releases a directory of a cache. Its trash has files that the worker cannot remove, as an agent makes them with
// a container that runs as root. The turn in the directory has ended, so the release must not fail.
func TestTrashOfAnotherUser(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	dir := filepath.Join(t.TempDir(), "cache")
	for _, name := range []string{dir, filepath.Join(dir, "trash"), filepath.Join(dir, "trash", "x")} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "trash", "x", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		for _, name := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
			if err := os.Chmod(name, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{dir, filepath.Join(dir, "trash")} {
			if err := os.Chown(name, nobody, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	asNobody(func() {
		c, err := workspaces.Open(dir, workspaces.Options{Objects: store.Objects()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			d, err := c.Checkout(t.Context(), segno.Snapshot{Workspace: "w"})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Release(t.Context(), segno.Hash{}); err != nil {
				t.Error(err)
			}
		}
	})
}
