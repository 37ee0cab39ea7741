package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

// TestEveryFailureOfAWrite fails the n-th operation for every n. Either no archive exists, or a
// complete one.
func TestEveryFailureOfAWrite(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			name := filepath.Join(t.TempDir(), "a.ckpt")
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			_, err := Write(t.Context(), name, village(), WriteOptions{FS: faults.Wrap(vfs.OS)})
			if !faults.Fired() {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			_, there := os.Lstat(name)
			if err == nil && there != nil {
				t.Fatalf("operation %d: no error and no archive", n)
			}
			if there == nil {
				r, err := Open(name)
				if err != nil {
					t.Fatalf("operation %d: an archive that is not complete: %v", n, err)
				}
				if err := r.Verify(t.Context(), nil); err != nil {
					t.Fatalf("operation %d: %v", n, err)
				}
				r.Close()
			}
		}
	}
}

// TestEveryFailureOfALoad fails the n-th operation for every n. Either no directory exists, or a
// complete one.
func TestEveryFailureOfALoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.ckpt")
	mustWrite(t, name, village(), WriteOptions{})
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := Load(t.Context(), name, Into{Dir: whole, TrustSession: true}); err != nil {
		t.Fatal(err)
	}
	want := len(tree(t, whole))
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			dir := t.TempDir()
			to := filepath.Join(dir, "in")
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			_, err := Load(t.Context(), name, Into{Dir: to, TrustSession: true, FS: faults.Wrap(vfs.OS)})
			if !faults.Fired() {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			_, there := os.Lstat(to)
			switch {
			case err == nil && there != nil:
				t.Fatalf("operation %d: no error and no directory", n)
			case there == nil && len(tree(t, to)) != want:
				t.Fatalf("operation %d: a directory that is not complete", n)
			case there != nil:
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Fatalf("operation %d left %v", n, left)
				}
			}
		}
	}
}
