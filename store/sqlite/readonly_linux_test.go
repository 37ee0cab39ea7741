package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// readOnlyMount returns a directory on a medium and a function that makes it read-only. If the test may not
// mount, the function changes file modes instead.
func readOnlyMount(t *testing.T) (dir string, seal func()) {
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		return dir, func() {
			if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, "size=16m"); err != nil {
				t.Fatal(err)
			}
		}
	}
	mode := func(file, in os.FileMode) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				return os.Chmod(path, in)
			}
			return os.Chmod(path, file)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { mode(0o600, 0o700) })
	return dir, func() { mode(0o400, 0o500) }
}

// TestAStoreOnAReadOnlyMedium opens a store that was closed cleanly, and a copy of a store in use, whose
// newest commits are in SQLite's log. Without the index of the log, SQLite cannot read the log: Open must
// return an error, not the older state. Every write must fail.
func TestAStoreOnAReadOnlyMedium(t *testing.T) {
	for name, c := range map[string]struct {
		drop string // a file that the copy leaves out
		open bool   // copy it while another process has it open
		want segno.CommitID
	}{
		"closed in order":       {want: "next"},
		"in use":                {open: true, want: "next"},
		"in use, without index": {open: true, drop: databaseName + "-shm"},
	} {
		t.Run(name, func(t *testing.T) {
			from := t.TempDir()
			head := seed(t, from)
			s := openIn(t, from, Options{})
			if _, err := s.Commit(t.Context(), segno.Commit{ID: "next", Thread: "thread", Parent: head.Head, Expect: head.Head,
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}}); err != nil {
				t.Fatal(err)
			}
			if !c.open {
				closeStore(t, s)
			} else {
				defer closeStore(t, s)
			}
			dir, seal := readOnlyMount(t)
			if err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if c.drop != "" {
				if err := os.Remove(filepath.Join(dir, "store", c.drop)); err != nil {
					t.Fatal(err)
				}
			}
			seal()
			copied, err := openDir(t.Context(), filepath.Join(dir, "store"), Options{ReadOnly: true})
			if c.want == "" {
				if err == nil {
					copied.Close()
				}
				if segno.KindOf(err) != segno.KindIO {
					t.Fatalf("it opens with %v of kind %q", err, segno.KindOf(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, copied)
			got, err := copied.Head(t.Context(), "thread")
			if err != nil || got.Head != c.want {
				t.Errorf("the head is %q, %v, want %q", got.Head, err, c.want)
			}
			if _, err := copied.Load(t.Context(), got.Head, segno.Window{Entries: true}); err != nil {
				t.Error(err)
			}
			for th, err := range copied.Threads(t.Context(), segno.ThreadQuery{Phase: segno.PhaseDone}) {
				if err != nil || th.ID != "thread" {
					t.Errorf("done is %q, %v", th.ID, err)
				}
			}
			if err := copied.Delete(t.Context(), "thread"); segno.KindOf(err) != segno.KindRefused {
				t.Errorf("a write fails with %v", err)
			}
			if _, err := copied.Erase(t.Context(), segno.CollectPolicy{}); segno.KindOf(err) != segno.KindRefused {
				t.Errorf("an erasure fails with %v", err)
			}
		})
	}
}

// TestAStoreOnAFullDisk opens a store without making a file beside its database. Every write must return the
// error of a full disk.
func TestAStoreOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := openIn(t, dir, Options{Full: true})
	defer closeStore(t, s)
	if got, err := s.Head(t.Context(), "thread"); err != nil || got.Head != head.Head {
		t.Errorf("the head is %q, %v, want %q", got.Head, err, head.Head)
	}
	if err := s.Delete(t.Context(), "thread"); segno.KindOf(err) != segno.KindIO || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a write fails with %v of kind %q", err, segno.KindOf(err))
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("the directory had %v and has %v, %v", before, after, err)
	}
}
