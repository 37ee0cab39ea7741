package workspaces_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/workspace"
)

// fullDisk is a disk that becomes full when a state is written.
type fullDisk struct {
	vfs.FS
	isFull bool
}

func (d *fullDisk) OpenFile(name string, flag int, mode os.FileMode) (vfs.File, error) {
	if d.isFull && strings.HasPrefix(filepath.Base(name), "state.json") {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	return d.FS.OpenFile(name, flag, mode)
}

// TestADirectoryAfterAFullDisk checks a directory out again after the disk was full at a checkout. The next one gets the same directory, at
// the path that the conversation contains.
func TestADirectoryAfterAFullDisk(t *testing.T) {
	store, disk := memory.New(nil), &fullDisk{FS: vfs.OS}
	defer store.Close()
	c, err := workspaces.Open(t.TempDir(), workspaces.Options{Objects: store.Objects(), FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	files, err := workspace.Open(t.TempDir(), workspace.Options{ID: "w", Objects: store.Objects()})
	if err != nil {
		t.Fatal(err)
	}
	batch := store.Objects().Batch()
	defer batch.Close()
	snap, err := files.Snapshot(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	staged, err := batch.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Objects().Keep(t.Context(), staged); err != nil {
		t.Fatal(err)
	}
	first, err := c.Checkout(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context(), snap.Tree); err != nil {
		t.Fatal(err)
	}
	disk.isFull = true
	if _, err := c.Checkout(t.Context(), snap); segno.KindOf(err) != segno.KindIO {
		t.Fatalf("on a full disk: %v", err)
	}
	disk.isFull = false
	second, err := c.Checkout(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	if second.Root() != first.Root() || !second.IsWarm() {
		t.Errorf("the next directory is %s (warm: %v), not %s", second.Root(), second.IsWarm(), first.Root())
	}
	if err := second.Release(t.Context(), snap.Tree); err != nil {
		t.Fatal(err)
	}
}
