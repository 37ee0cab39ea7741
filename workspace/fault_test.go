package workspace_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// restoreFixture is a tree with two saved states that differ in everything that can change, and
// the steps from the second state, which is present, to the first.
type restoreFixture struct {
	*fixture
	first segno.Snapshot
	want  seen
	steps []segno.Change
}

func newRestoreFixture(t testing.TB) *restoreFixture {
	p := newFixture(t)
	t.Cleanup(func() { removeAll(t, p.root) })
	p.write("edited", "old")
	p.write("moded", "m")
	p.write("deleted/deep/file", "d")
	must(t, os.Mkdir(p.path("deleted/empty"), 0o1777))
	p.write("swap/file", "in a directory")
	p.write("paws", "a file")
	p.write("linked/a", "shared")
	must(t, os.Link(p.path("linked/a"), p.path("linked/b")))
	must(t, os.Link(p.path("linked/a"), p.path("z")))
	must(t, os.Symlink("edited", p.path("link")))
	p.write("marked", "x")
	must(t, unix.Setxattr(p.path("marked"), "user.k", []byte("old"), 0))
	must(t, unix.Setxattr(p.path("linked"), "user.d", []byte("dir"), 0))
	must(t, os.Chmod(p.path("swap"), 0o2555))
	j := &restoreFixture{fixture: p, first: p.save(), want: p.look()}

	p.write("edited", "new")
	must(t, os.Chmod(p.path("moded"), 0o4711))
	must(t, os.RemoveAll(p.path("deleted")))
	removeAll(t, p.path("swap"))
	p.write("swap", "now a file")
	must(t, os.Remove(p.path("paws")))
	p.write("paws/file", "now a directory")
	must(t, os.Remove(p.path("linked/a")))
	must(t, os.Remove(p.path("z")))
	p.write("z", "alone")
	must(t, os.Remove(p.path("link")))
	must(t, os.Symlink("/", p.path("link")))
	must(t, unix.Removexattr(p.path("marked"), "user.k"))
	must(t, unix.Setxattr(p.path("linked"), "user.d", []byte("changed"), 0))
	p.write("added/file", "a")
	j.steps = p.diff(p.save(), j.first)
	return j
}

// unsynced omits the syncs. They take most of the time, and only a crash of the machine would
// reveal that they are missing. A fault injector around it still receives the calls.
type unsynced struct{ vfs.FS }

func (unsynced) SyncDir(string) error { return nil }

func (u unsynced) OpenRoot(name string) (vfs.Root, error) {
	r, err := u.FS.OpenRoot(name)
	return unsyncedRoot{r}, err
}

type unsyncedRoot struct{ vfs.Root }

func (unsyncedRoot) SyncDir(string) error { return nil }

func (u unsyncedRoot) OpenRoot(name string) (vfs.Root, error) {
	r, err := u.Root.OpenRoot(name)
	return unsyncedRoot{r}, err
}

func (u unsyncedRoot) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := u.Root.OpenFile(name, flag, perm)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// TestInterruptedApplyCanBeRepeated fails each write of a restore in turn, first only that one
// and then all from it on, as if the process was killed. Apply must return the error, and the
// same steps must then result in the exact tree.
func TestInterruptedApplyCanBeRepeated(t *testing.T) {
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			j := newRestoreFixture(t)
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			dir := j.other(workspace.Options{Index: j.index, FS: faults.Wrap(unsynced{vfs.OS})})
			conflicts, err := dir.Apply(ctx(t), j.steps, j.first.Times)
			if !faults.Fired() {
				if err != nil || conflicts != nil {
					t.Fatalf("without a fault: %v, %v", conflicts, err)
				}
				if n < 50 {
					t.Fatalf("a restore of all this is only %d operations", n)
				}
				break
			}
			what := fmt.Sprintf("fault %d (%s), for good %v", n, faults.Trace()[n], forever)
			if err == nil {
				t.Fatalf("%s went unreported", what)
			}
			conflicts, err = j.other(workspace.Options{Index: j.index, FS: unsynced{vfs.OS}}).Apply(ctx(t), j.steps, j.first.Times)
			if err != nil || len(conflicts) > 0 {
				t.Fatalf("%s: the second try: %v, conflicts %q", what, err, conflicts)
			}
			if s := j.save(); s.Tree != j.first.Tree {
				t.Fatalf("%s: the tree is not the first one's: %v", what, j.diff(s, j.first))
			}
			sameTree(t, what, j.look(), j.want)
		}
	}
}

// TestSnapshotReportsAnIndexItCannotWrite fails each write of a snapshot after many files have changed.
func TestSnapshotReportsAnIndexItCannotWrite(t *testing.T) {
	for n := 0; ; n++ {
		p := newFixture(t)
		p.write("a", "1")
		p.save()
		for i := range 40 {
			p.write(fmt.Sprint("a", i), "2")
		}
		faults := faultfs.FailAt(n)
		b := p.store.Batch()
		_, err := p.faulty(faults).Snapshot(ctx(t), b)
		if !faults.Fired() {
			must(t, err)
			if n < 3 {
				t.Fatalf("an index is written with only %d operations", n)
			}
			return
		}
		if err == nil {
			t.Fatalf("fault %d (%s) went unreported", n, faults.Trace()[n])
		}
		if got, want := p.save(), p.saveBy(p.other(workspace.Options{})); got.Tree != want.Tree {
			t.Fatalf("after fault %d the index misleads", n)
		}
	}
}

// TestFailedForkLeavesNothing fails each write of a fork: there must be an error and no fork.
func TestFailedForkLeavesNothing(t *testing.T) {
	p := newFixture(t)
	p.write("d/a", "1")
	p.write("gone", "2")
	must(t, os.Link(p.path("d/a"), p.path("d/b")))
	must(t, os.Symlink("a", p.path("d/l")))
	s := p.save()
	must(t, os.Remove(p.path("gone")))
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		target := fmt.Sprintf("%s-fork-%d", p.root, n)
		_, err := p.faulty(faults).Fork(ctx(t), s, target)
		if !faults.Fired() {
			must(t, err)
			return
		}
		if err == nil {
			t.Fatalf("fault %d (%s) went unreported", n, faults.Trace()[n])
		}
		if _, err := os.Lstat(target); err == nil {
			t.Fatalf("fault %d (%s) left a fork", n, faults.Trace()[n])
		}
	}
}
