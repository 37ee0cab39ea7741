package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// scratch makes a scratch copy beside the tree.
func (p *fixture) scratch(d *workspace.Dir) *workspace.Scratch {
	p.t.Helper()
	s, err := d.Scratch(ctx(p.t), p.scratchOptions(new(string)))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *fixture) scratchOptions(announced *string) workspace.ScratchOptions {
	return workspace.ScratchOptions{In: filepath.Dir(p.root), Index: func(string) string { return p.index + ".scratch" },
		Announce: func(path string) error { *announced = path; return nil }}
}

// TestAScratchCopyIsEqualToEachSnapshot resets a scratch copy to snapshots in any order, while programs change it.
func TestAScratchCopyIsEqualToEachSnapshot(t *testing.T) {
	p := newFixture(t)
	p.write("package.json", "{}")
	p.write("node_modules/x.js", "x")
	git(t, p.root, "init", "-q")
	var snaps []segno.Snapshot
	var looks []seen
	withoutGit := func(s seen) seen {
		for path := range s.tree {
			if strings.HasPrefix(path, ".git/") {
				delete(s.tree, path) // the copy of a repository differs
			}
		}
		return s
	}
	for _, change := range []func(){
		func() { p.write("a/one", "1"); p.write("two", "2") },
		func() { p.write("two", "2b"); must(t, os.Symlink("two", p.path("link"))) },
		func() { must(t, os.RemoveAll(p.path("a"))); must(t, os.Chmod(p.path("two"), 0o700)) },
		func() { p.write("a", "a file"); must(t, os.Link(p.path("a"), p.path("b"))) },
	} {
		change()
		snaps = append(snaps, p.save())
		looks = append(looks, withoutGit(p.look()))
	}
	p.write("unsaved", "u")
	before := p.look()
	s := p.scratch(p.dir)
	if !slices.Equal(s.Protected, []string{".git", "node_modules"}) {
		t.Errorf("protected: %q", s.Protected)
	}
	for _, i := range []int{3, 0, 2, 1, 1, 3} {
		must(t, os.WriteFile(filepath.Join(s.Root(), "made by a test"), nil, 0o600))
		must(t, os.WriteFile(filepath.Join(s.Root(), "two"), []byte("changed by a test"), 0o600))
		must(t, os.MkdirAll(filepath.Join(s.Root(), "dir", "below"), 0o700))
		must(t, os.WriteFile(filepath.Join(s.Root(), "node_modules", "cached"), nil, 0o600))
		missing, err := s.Reset(ctx(t), snaps[i])
		if err != nil || len(missing) > 0 {
			t.Fatalf("reset to %d: %v, %v", i, missing, err)
		}
		got := withoutGit(look(t, s.Root()))
		if got.tree["node_modules/cached"] == "" {
			t.Error("a protected directory was changed")
		}
		delete(got.tree, "node_modules/cached")
		sameTree(t, "the scratch copy", got, looks[i])
	}
	sameTree(t, "the source", p.look(), before)
	must(t, workspace.RemoveScratch(vfs.OS, s.Root()))
	if _, err := os.Lstat(s.Root()); !os.IsNotExist(err) {
		t.Errorf("the scratch copy is still there: %v", err)
	}
	must(t, workspace.RemoveScratch(vfs.OS, p.root)) // it is not a scratch copy
	sameTree(t, "the source", p.look(), before)
}

// TestAScratchCopyHasNewTimes checks that a build which compares times sees what Reset wrote: the written files are newer than
// the others, in the order that they have in the snapshot.
func TestAScratchCopyHasNewTimes(t *testing.T) {
	p := newFixture(t)
	old := time.Now().Add(-time.Hour)
	at := func(path string, minutes int) {
		when := old.Add(time.Duration(minutes) * time.Minute)
		must(t, os.Chtimes(p.path(path), when, when))
	}
	p.write("main.c", "1")
	p.write("main.o", "of 1")
	p.write("other.c", "same")
	at("main.c", 1)
	at("main.o", 2)
	at("other.c", 3)
	first := p.save()
	p.write("main.c", "2")
	p.write("main.o", "of 2")
	p.save()
	s := p.scratch(p.dir)
	if _, err := s.Reset(ctx(t), first); err != nil {
		t.Fatal(err)
	}
	mtime := func(path string) time.Time {
		fi, err := os.Stat(filepath.Join(s.Root(), path))
		must(t, err)
		return fi.ModTime()
	}
	source, object, other := mtime("main.c"), mtime("main.o"), mtime("other.c")
	if !object.After(source) || !source.After(other) || object.After(time.Now()) || time.Since(source) > time.Minute {
		t.Errorf("main.c %v, main.o %v, other.c %v", source, object, other)
	}
}

// TestAScratchCopyHasNewTimesAfterAnError fails each operation of a reset. The next reset gives new times also to the files that
// the failed one wrote.
func TestAScratchCopyHasNewTimesAfterAnError(t *testing.T) {
	p := newFixture(t)
	long := time.Now().Add(-time.Hour)
	var snaps []segno.Snapshot
	for _, text := range []string{"1", "2"} {
		p.write("main.c", text)
		p.write("other.c", text)
		must(t, os.Chtimes(p.path("main.c"), long, long))
		must(t, os.Chtimes(p.path("other.c"), long, long))
		snaps = append(snaps, p.save())
	}
	copied := p.scratch(p.dir)
	for n, fired := 0, true; fired; n++ {
		faults := faultfs.FailAt(n)
		s, err := p.faulty(faults).OpenScratch(copied.Root(), p.index+".scratch")
		must(t, err)
		_, err = s.Reset(ctx(t), snaps[n%2])
		if fired = faults.Fired(); err != nil && !fired {
			t.Fatal(err)
		}
		if _, err = s.Reset(ctx(t), snaps[n%2]); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"main.c", "other.c"} {
			if fi, err := os.Stat(filepath.Join(s.Root(), name)); err != nil || time.Since(fi.ModTime()) > time.Minute {
				t.Fatalf("operation %d: %s has the time %v (%v)", n, name, fi.ModTime(), err)
			}
		}
	}
}

// TestAScratchCopyIsNoSymlink replaces a scratch copy by a symlink to another directory, which a reset would overwrite.
func TestAScratchCopyIsNoSymlink(t *testing.T) {
	p := newFixture(t)
	p.write("a", "1")
	p.save()
	s := p.scratch(p.dir)
	mine := t.TempDir()
	must(t, os.RemoveAll(s.Root()))
	must(t, os.Symlink(mine, s.Root()))
	for _, path := range []string{s.Root(), mine} {
		if _, err := p.dir.OpenScratch(path, p.index+".scratch"); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("%s can be opened: %v", path, err)
		}
	}
}

// TestAScratchCopyOfAKilledProcess fails each operation that makes a scratch copy. The path that was announced is enough to
// remove what is left.
func TestAScratchCopyOfAKilledProcess(t *testing.T) {
	p := newFixture(t)
	p.write("a/one", "1")
	s := p.save()
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		faults.Forever = true
		announced := ""
		made, err := p.faulty(faults).Scratch(ctx(t), p.scratchOptions(&announced))
		if err == nil {
			_, err = made.Reset(ctx(t), s)
		}
		must(t, workspace.RemoveScratch(vfs.OS, announced))
		left, globErr := filepath.Glob(filepath.Join(filepath.Dir(p.root), "segno-scratch-*"))
		if globErr != nil || len(left) > 0 {
			t.Fatalf("operation %d left %v", n, left)
		}
		if err == nil {
			return
		}
	}
}
