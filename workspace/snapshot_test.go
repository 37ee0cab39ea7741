package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/workspace"
)

// TestOnlyChangedObjectsArePut counts the objects that a change deep in a tree adds.
func TestOnlyChangedObjectsArePut(t *testing.T) {
	p := newFixture(t)
	at := func(path string, n int64) { must(t, os.Chtimes(p.path(path), time.Time{}, time.Unix(n, 0))) }
	for i, path := range []string{"a/b/c/file", "a/b/other/file", "a/x", "y/z/file"} {
		p.write(path, path)
		at(path, int64(i)) // with equal times, objects would be equal
	}
	p.save()
	before := p.store.puts
	p.save()
	if n := p.store.puts - before; n != 0 {
		t.Errorf("a snapshot of no change puts %d objects", n)
	}
	p.write("a/b/c/file", "changed")
	at("a/b/c/file", 9)
	p.save()
	// The content, plus the tree and the times of each of c, b, a and the root.
	if n := p.store.puts - before; n != 9 {
		t.Errorf("a snapshot of one change puts %d objects, want 9", n)
	}
}

// TestTimesAreNoPartOfTheName changes only the time of a file.
func TestTimesAreNoPartOfTheName(t *testing.T) {
	p := newFixture(t)
	p.write("d/file", "1")
	first := p.save()
	must(t, os.Chtimes(p.path("d/file"), time.Time{}, time.Unix(1, 2)))
	second := p.save()
	if first.Tree != second.Tree || first.Times == second.Times {
		t.Errorf("tree %v, %v; times %v, %v", first.Tree, second.Tree, first.Times, second.Times)
	}
	p.write("d/file", "changed")
	p.restore(second)
	if got := mtimeOf(t, p.path("d/file")); got != 1e9+2 {
		t.Errorf("the file came back with the time %d", got)
	}
}

// TestLostObjectsArePutAgain drops a batch, then one object after the other, then all of them.
// Each time the next snapshot must be complete.
func TestLostObjectsArePutAgain(t *testing.T) {
	p := newFixture(t)
	p.write("a/b/file", "1")
	p.write("a/c/file", "2")
	first := p.save()
	p.write("a/c/file", "3")
	dropped := p.store.Batch()
	if _, err := p.dir.Snapshot(ctx(t), dropped); err != nil {
		t.Fatal(err)
	}
	dropped.Close()
	whole := func(s segno.Snapshot) {
		t.Helper()
		err := new(workspace.Tracer).Trace(ctx(t), p.store, s, func(name segno.Hash) bool {
			if ok, _ := p.store.Has(ctx(t), name); !ok {
				t.Errorf("object %s is missing", name)
				return false
			}
			return true
		})
		must(t, err)
	}
	second := p.save()
	if second.Tree == first.Tree {
		t.Error("the change is lost")
	}
	whole(second)
	clear(p.store.objects)
	third := p.save()
	if third.Tree != second.Tree {
		t.Error("the tree changed with the store")
	}
	whole(third)
}

// TestADirectorysOwnAttributesAreSeen changes only these.
func TestADirectorysOwnAttributesAreSeen(t *testing.T) {
	p := newFixture(t)
	p.write("a/d/file", "1")
	first := p.save()
	must(t, unix.Setxattr(p.path("a/d"), "user.k", []byte("v"), 0))
	second := p.save()
	if d := p.diff(first, second); len(d) != 1 || d[0].Path != "a/d" {
		t.Errorf("the change is %v", d)
	}
	if c := p.restore(first); len(c) > 0 || p.save().Tree != first.Tree {
		t.Errorf("conflicts %q", c)
	}
}

// TestDirAttributeInOneTick sets and removes an attribute of a directory, and removes a file in it,
// with a snapshot before and after. On tmpfs, the directory can have the same times in both.
func TestDirAttributeInOneTick(t *testing.T) {
	if dir := memdir.Path(); dir != "" {
		t.Setenv("TMPDIR", dir)
	}
	for range 50 {
		p := newFixture(t)
		p.write("dir/file", "one")
		p.save()
		if err := unix.Setxattr(p.path("dir"), "user.a", []byte("one"), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("the file system has no extended attributes")
		} else {
			must(t, err)
		}
		p.save()
		must(t, os.Remove(p.path("dir/file")))
		must(t, unix.Removexattr(p.path("dir"), "user.a"))
		got := p.save()
		if full := p.saveBy(p.other(workspace.Options{})); got.Tree != full.Tree {
			t.Fatalf("the snapshot missed %v", p.diff(got, full))
		}
	}
}

// TestUnchangedTreeKeepsTheIndex takes a snapshot of an unchanged tree with a directory whose time
// is in the future, and whose attributes are therefore read again. The index must not be written
// again, because it is large in a large tree.
func TestUnchangedTreeKeepsTheIndex(t *testing.T) {
	p := newFixture(t)
	must(t, os.Mkdir(p.path("dir"), 0o755))
	future := time.Now().Add(time.Hour)
	must(t, os.Chtimes(p.path("dir"), future, future))
	p.save()
	before, err := os.Stat(p.index)
	must(t, err)
	p.save()
	after, err := os.Stat(p.index)
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("the index was written again")
	}
}

// TestHardLinksAreSeparatedAndJoined uses two names of one file, then two files with the same
// content.
func TestHardLinksAreSeparatedAndJoined(t *testing.T) {
	p := newFixture(t)
	p.write("a", "same")
	must(t, os.Link(p.path("a"), p.path("b")))
	together, linked := p.save(), p.look()
	must(t, os.Remove(p.path("b")))
	p.write("b", "same")
	apart, parted := p.save(), p.look()
	for range 2 {
		if c := p.restore(together); len(c) > 0 {
			t.Errorf("conflicts %q", c)
		}
		sameTree(t, "together", p.look(), linked)
		if c := p.restore(apart); len(c) > 0 {
			t.Errorf("conflicts %q", c)
		}
		sameTree(t, "apart", p.look(), parted)
	}
}

// TestARestoredFileKeepsItsOwner can only be tested as root.
func TestARestoredFileKeepsItsOwner(t *testing.T) {
	p := newFixture(t)
	p.write("file", "old")
	uid := os.Geteuid()
	if uid == 0 {
		uid = 1234
		must(t, os.Chown(p.path("file"), uid, uid))
	}
	must(t, unix.Chmod(p.path("file"), 0o4711))
	first, want := p.save(), p.look()
	p.write("file", "new")
	if c := p.restore(first); len(c) > 0 {
		t.Errorf("conflicts %q", c)
	}
	sameTree(t, "restored", p.look(), want)
	var st unix.Stat_t
	must(t, unix.Stat(p.path("file"), &st))
	if int(st.Uid) != uid {
		t.Errorf("the file belongs to %d, did to %d", st.Uid, uid)
	}
}

// TestTraceReachesEverything keeps only the traced objects and restores from them.
func TestTraceReachesEverything(t *testing.T) {
	j := newRestoreFixture(t)
	kept := newMemory()
	err := new(workspace.Tracer).Trace(ctx(t), j.store, j.first, func(name segno.Hash) bool {
		if _, ok := kept.objects[name]; ok {
			return false
		}
		data, err := j.store.Get(ctx(t), name)
		must(t, err)
		kept.objects[name] = data
		return true
	})
	must(t, err)
	j.store.objects = kept.objects
	if c, err := j.dir.Apply(ctx(t), j.steps, j.first.Times); err != nil || len(c) > 0 {
		t.Fatalf("%v, conflicts %q", err, c)
	}
	sameTree(t, "from what was traced", j.look(), j.want)
	if again := j.save(); again.Tree != j.first.Tree {
		t.Error("the tree is another one")
	}
}

// TestOnlyDifferencesAreWritten restores a tree that differs in one file.
func TestOnlyDifferencesAreWritten(t *testing.T) {
	p := newFixture(t)
	p.write("d/same", "1")
	p.write("d/file", "1")
	first := p.save()
	p.write("d/file", "2")
	inode := func() os.FileInfo {
		fi, err := os.Stat(p.path("d/same"))
		must(t, err)
		return fi
	}
	before := inode()
	p.restore(first)
	if after := inode(); !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Error("a file that did not differ was written")
	}
}

// TestTemporaryFilesAreRemoved leaves a temporary file, as a killed Apply does, and beside it
// two files of other programs.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	p := newFixture(t)
	name := strings.Repeat("A", 26)
	for _, path := range []string{"d/.segno-apply-" + name, "d/.segno-" + name, "d/.segno-mine"} {
		p.write(path, "x")
	}
	s := p.save()
	if e := p.entities(s); e["d/.segno-mine"].Type != segno.EntityFile || len(e) != 2 {
		t.Errorf("saved %v", e)
	}
	for path, there := range map[string]bool{"d/.segno-apply-" + name: false, "d/.segno-" + name: true, "d/.segno-mine": true} {
		if _, err := os.Lstat(p.path(path)); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestInvalidStepsAreRefused(t *testing.T) {
	p := newFixture(t)
	file := segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf(nil)}
	for _, steps := range [][]segno.Change{
		{{Path: "../x", To: file}}, {{Path: "/x", To: file}}, {{Path: "", To: file}}, {{Path: "a//b", To: file}},
		{{Path: "a/./b", To: file}}, {{Path: "a\x00", To: file}}, {{Path: "a", To: file}, {Path: "a", To: file}},
		{{Path: "a", To: segno.Entity{Type: segno.EntityFile}}},
		{{Path: "a", To: segno.Entity{Type: segno.EntityHardLink, Hash: file.Hash, Target: "../b"}}},
		{{Path: "a", To: segno.Entity{Type: "what"}}},
	} {
		if _, err := p.dir.Apply(ctx(t), steps, segno.Hash{}); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%v: %v", steps, err)
		}
	}
}

func TestProgressEndsWithEverythingRead(t *testing.T) {
	p := newFixture(t)
	for i := range 300 {
		p.write("d/"+strings.Repeat("x", i%200+1), strings.Repeat("y", i))
	}
	var done, total int64
	p.open(workspace.Options{Progress: func(d, n int64) {
		if d < done || d > n {
			t.Errorf("%d of %d after %d", d, n, done)
		}
		done, total = d, n
	}})
	if s := p.save(); done != total || done != s.Bytes {
		t.Errorf("in the end %d of %d, %d are saved", done, total, s.Bytes)
	}
}

// full is a batch of a store with no room.
type full struct{ nowhere }

func (full) Put(context.Context, []byte) (segno.Hash, error) {
	return segno.Hash{}, segno.NewError(segno.KindBusy, "put", "", nil)
}

// TestAnErrorKeepsItsKind lets the store, the caller and the user stop a snapshot.
func TestAnErrorKeepsItsKind(t *testing.T) {
	p := newFixture(t)
	p.write("file", "1")
	if _, err := p.dir.Snapshot(ctx(t), full{}); segno.KindOf(err) != segno.KindBusy {
		t.Errorf("a busy store: %v", err)
	}
	over, cancel := context.WithCancel(ctx(t))
	cancel()
	if _, err := p.dir.Snapshot(over, nowhere{}); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("a cancelled call: %v", err)
	}
	must(t, os.Symlink("file", p.path(".segnoignore")))
	if _, err := p.dir.Snapshot(ctx(t), nowhere{}); err == nil || segno.HintOf(err) == "" {
		t.Errorf("a .segnoignore that is not read: %v", err)
	}
	must(t, os.RemoveAll(p.root))
	if _, err := p.dir.Snapshot(ctx(t), nowhere{}); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a root that is gone: %v", err)
	}
}

// TestListIsTheWholeSnapshot compares List with a comparison against the empty tree.
func TestListIsTheWholeSnapshot(t *testing.T) {
	p := newFixture(t)
	p.write("a/b/file", "1")
	p.write("a.b", "2")
	p.write(".git/config", "")
	must(t, os.Symlink("a", p.path("link")))
	must(t, os.Mkdir(p.path("empty"), 0o755))
	must(t, os.Link(p.path("a.b"), p.path("z")))
	must(t, os.Chtimes(p.path("a/b/file"), time.Time{}, time.Unix(3, 4)))
	s := p.save()
	listed := map[string]segno.Entity{}
	must(t, workspace.List(t.Context(), p.store, s, func(path string, e segno.Entity, modified time.Time) error {
		listed[path] = e
		if isFile := e.Type == segno.EntityFile; isFile == modified.IsZero() || path == "a/b/file" && modified.UnixNano() != 3e9+4 {
			t.Errorf("%s has the time %v", path, modified)
		}
		return nil
	}))
	changes, err := p.dir.Diff(t.Context(), segno.Hash{}, s.Tree)
	must(t, err)
	for _, c := range changes {
		if listed[c.Path] != c.To {
			t.Errorf("%s is listed as %+v, want %+v", c.Path, listed[c.Path], c.To)
		}
	}
	if len(changes) != len(listed) {
		t.Errorf("%d entries are listed, want %d", len(listed), len(changes))
	}
}

// TestFewChangesDoNotWriteTheIndex changes one file at a time. The index file stays, also for another process, which
// reads the changed files again, until so many have changed that to write it is cheaper.
func TestFewChangesDoNotWriteTheIndex(t *testing.T) {
	p := newFixture(t)
	for i := range 50 {
		p.write(fmt.Sprintf("d%d/f", i), "before")
	}
	p.save()
	begin, err := os.Stat(p.index)
	must(t, err)
	written := 0
	for i := range 50 {
		p.write(fmt.Sprintf("d%d/f", i), fmt.Sprint("after ", i))
		own := p.save()
		if other := p.saveBy(p.other(workspace.Options{Index: p.index})); other.Tree != own.Tree {
			t.Fatalf("after %d changes another process saw %v", i+1, p.diff(own, other))
		}
		if whole := p.saveBy(p.other(workspace.Options{})); whole.Tree != own.Tree {
			t.Fatalf("after %d changes the index misleads: %v", i+1, p.diff(own, whole))
		}
		if now, err := os.Stat(p.index); err != nil || !os.SameFile(begin, now) {
			written++
			begin = now
		}
	}
	if written == 0 || written > 3 {
		t.Errorf("50 changes wrote the index %d times", written)
	}
}
