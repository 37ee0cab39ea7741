package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// TestAKilledForkLeavesNothing fails every write of a fork from the n-th on, including its
// cleanup, as if the process had been killed there. The next command must remove the incomplete
// copy, and nothing else.
func TestAKilledForkLeavesNothing(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	p.write("d/file", "1")
	must(t, os.Mkdir(p.path("locked"), 0o500))
	must(t, os.Symlink(p.root, p.path("d/link")))
	note := p.beside("forks/note")
	p.open(workspace.Options{Index: p.index, ForkNote: note})
	s, before := p.save(), p.look()
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		faults.Forever = true
		_, err := p.other(workspace.Options{Index: p.index, ForkNote: note, FS: unsynced{faults.Wrap(vfs.OS)}}).Fork(ctx(t), s, p.beside(fmt.Sprint("fork", n)))
		if faults.Fired() && err == nil {
			t.Fatalf("write %d failed, and the fork did not", n)
		}
		must(t, workspace.RemoveAbandonedFork(ctx(t), vfs.OS, note))
		for _, pattern := range []string{".segno-fork-*", "forks/note"} {
			if left, _ := filepath.Glob(p.beside(pattern)); len(left) > 0 {
				t.Fatalf("killed at write %d of a fork, there is %q", n, left)
			}
		}
		sameTree(t, "the source", p.look(), before)
		if !faults.Fired() {
			must(t, err)
			if n < 10 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
	}
}

// TestANoteOfAForkRemovesForksOnly uses notes that name other paths.
func TestANoteOfAForkRemovesForksOnly(t *testing.T) {
	p := newFixture(t)
	p.write("file", "1")
	name := ".segno-fork-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	must(t, os.Symlink(p.root, p.beside(name)))
	before := p.look()
	for _, text := range []string{p.root, p.root + "/" + name, p.beside(name), name, "", "/", p.beside(name) + "/../tree"} {
		must(t, os.WriteFile(p.beside("note"), []byte(text), 0o600))
		if err := workspace.RemoveAbandonedFork(ctx(t), vfs.OS, p.beside("note")); err != nil {
			t.Errorf("a note that names %q: %v", text, err)
		}
		sameTree(t, "the tree", p.look(), before)
		if _, err := os.Lstat(p.beside("note")); err == nil {
			t.Errorf("a note that names %q is still there", text)
		}
	}
}
