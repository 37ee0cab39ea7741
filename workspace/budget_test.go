//go:build linux

package workspace_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/workspace"
)

// beyond returns the protected paths of a snapshot, with the reasons.
func (p *fixture) beyond(s segno.Snapshot) map[string]string {
	p.t.Helper()
	out := make(map[string]string)
	for path, e := range p.entities(s) {
		if e.Type == segno.EntityProtected {
			out[path] = e.Why
		}
	}
	return out
}

func isWhy(got map[string]string, why string, want ...string) bool {
	for _, path := range want {
		if !strings.HasPrefix(got[path], why) {
			return false
		}
	}
	return len(got) == len(want)
}

// TestTheLargestFilesAreBeyondTheBudget lets a tree grow beyond the budget and shrink again, with the index
// and without it.
func TestTheLargestFilesAreBeyondTheBudget(t *testing.T) {
	const why = "beyond the "
	p := newFixture(t)
	p.dir.SetBudget(65, 100)
	for path, size := range map[string]int{"a/10": 10, "b/20": 20, "c/30": 30} {
		p.write(path, strings.Repeat("x", size))
	}
	all := p.save()
	if got := p.beyond(all); len(got) > 0 {
		t.Fatalf("within the budget, %v is protected", got)
	}
	p.write("b/40", strings.Repeat("y", 40))
	for range 2 {
		s := p.save()
		if got := p.beyond(s); !isWhy(got, why, "b/40") {
			t.Errorf("with 100 bytes of 65, protected is %v", got)
		}
		if !slices.Equal(s.Unread, []string{"b/40"}) {
			t.Errorf("the snapshot lists %q as left out", s.Unread)
		}
	}
	fresh := p.other(workspace.Options{})
	fresh.SetBudget(65, 100)
	if got, want := p.saveBy(fresh), p.save(); got.Tree != want.Tree {
		t.Errorf("without an index it is another tree: %v", p.diff(got, want))
	}
	if c := p.restore(all); len(c) > 0 || len(p.read("b/40")) != 40 {
		t.Errorf("a restore to a state without it: conflicts %q, %d bytes left", c, len(p.read("b/40")))
	}
	must(t, os.Remove(p.path("c/30")))
	if got := p.beyond(p.save()); !isWhy(got, why, "b/40") {
		t.Errorf("with 70 bytes of 65, protected is %v", got)
	}
	must(t, os.Remove(p.path("a/10")))
	if got := p.beyond(p.save()); len(got) > 0 {
		t.Errorf("with 60 bytes of 65, %v is protected", got)
	}
}

// TestDirectoriesBeyondTheBudgetAreLeftAlone restores and forks a tree that contains one.
func TestDirectoriesBeyondTheBudgetAreLeftAlone(t *testing.T) {
	p := newFixture(t)
	p.dir.SetBudget(1<<30, 3)
	p.write("1/2/3/file", "old")
	p.write("1/2/3/4/file", "old")
	p.write("1/2/3/4/5/file", "old")
	first := p.save()
	for range 2 {
		if got := p.beyond(p.save()); !isWhy(got, "deeper than ", "1/2/3/4") {
			t.Errorf("protected is %v", got)
		}
	}
	p.write("1/2/3/file", "new")
	p.write("1/2/3/4/file", "new")
	if c := p.restore(first); len(c) > 0 || p.read("1/2/3/file") != "old" || p.read("1/2/3/4/file") != "new" {
		t.Errorf("conflicts %q, %q at level 3, %q at level 4", c, p.read("1/2/3/file"), p.read("1/2/3/4/file"))
	}
	fork := filepath.Join(t.TempDir(), "fork")
	report, err := p.dir.Fork(ctx(t), first, fork)
	must(t, err)
	if !slices.Equal(report.LeftOut, []string{"1/2/3/4"}) {
		t.Errorf("the fork left out %q", report.LeftOut)
	}
}

// TestFiveThousandLevels saves, compares, restores and forks a tree that is deeper than any path that the
// kernel accepts. An algorithm that is quadratic in the depth would take minutes.
func TestFiveThousandLevels(t *testing.T) {
	const levels = 5000 // a snapshot contains 2000
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes seconds
	}
	p := newFixture(t)
	before := p.save()
	p.deep(levels)
	t.Cleanup(func() { p.undeep() })
	s := p.save()
	if s.Files != 2000 || len(p.beyond(s)) != 1 {
		t.Errorf("%d files, protected %d", s.Files, len(p.beyond(s)))
	}
	if changes := p.diff(before, s); len(changes) != 2000+2000+1 {
		t.Errorf("%d changes", len(changes))
	}
	p.write("d/d/d/f", "new")
	if c := p.restore(s); len(c) > 0 || p.read("d/d/d/f") != "2" {
		t.Errorf("conflicts %q, content %q", c, p.read("d/d/d/f"))
	}
	fork := p.root + "-fork"
	report, err := p.dir.Fork(ctx(t), s, fork)
	must(t, err)
	copied := &fixture{t: t, root: fork}
	t.Cleanup(copied.undeep)
	if len(report.LeftOut) != 1 {
		t.Errorf("the fork left out %d paths", len(report.LeftOut))
	}
	if conflicts, err := p.dir.Apply(ctx(t), p.diff(s, before), before.Times); err != nil || len(conflicts) > 0 {
		t.Errorf("a restore to nothing: %d conflicts, %v", len(conflicts), err)
	}
	if now := p.save(); now.Files != 0 || len(p.beyond(now)) != 1 {
		t.Errorf("%d files left, protected %d", now.Files, len(p.beyond(now)))
	}
}

// TestForkOfADeepProtectedTree forks a tree with 5,000 levels below a directory that is not saved. The copy
// must end where a snapshot would end, and the report must name that place.
func TestForkOfADeepProtectedTree(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	p := newFixture(t)
	p.write("package.json", "{}")
	p.write("node_modules/f", "f")
	modules := &fixture{t: t, root: p.path("node_modules")}
	modules.deep(5000)
	t.Cleanup(modules.undeep)
	report, dir := p.fork(p.save())
	copied := &fixture{t: t, root: filepath.Join(dir, "node_modules")}
	t.Cleanup(copied.undeep)
	if want := "node_modules" + strings.Repeat("/d", 2000); !slices.Equal(report.LeftOut, []string{want}) {
		t.Errorf("the fork left out %d paths", len(report.LeftOut))
	}
	if copied.read("d/d/d/f") != "2" {
		t.Errorf("a file in the copy is %q", copied.read("d/d/d/f"))
	}
}

// undeep removes the directories that deep made, without keeping a directory open for each level.
func (p *fixture) undeep() {
	at, err := unix.Open(p.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(p.t, err)
	levels := 0
	step := func(to string) error {
		next, err := unix.Openat(at, to, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			must(p.t, unix.Close(at))
			at = next
		}
		return err
	}
	for step("d") == nil {
		levels++
	}
	for range levels {
		_ = unix.Unlinkat(at, "f", 0)
		must(p.t, step(".."))
		must(p.t, unix.Unlinkat(at, "d", unix.AT_REMOVEDIR))
	}
	must(p.t, unix.Close(at))
}

// blocks returns how many bytes a file takes on disk.
func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

// TestHolesStayHoles saves, restores and forks files with holes at every place.
func TestHolesStayHoles(t *testing.T) {
	const size = 3 << 20
	p := newFixture(t)
	want := make(map[string][]byte)
	for name, data := range map[string][]int64{
		"start": {0}, "end": {size - 5}, "middle": {1<<20 + 7}, "both": {0, size - 5}, "none": {},
		"many": {64 << 10, 200 << 10, 1 << 20, 2<<20 - 1},
	} {
		f, err := os.Create(p.path(name))
		must(t, err)
		content := make([]byte, size)
		for _, at := range data {
			copy(content[at:], "data!")
			_, err := f.WriteAt([]byte("data!"), at)
			must(t, err)
		}
		must(t, f.Truncate(size))
		must(t, f.Close())
		want[name] = content
		if blocks(t, p.path(name)) > size/4 {
			t.Fatalf("%s: the file system makes no holes", name)
		}
	}
	check := func(what, root string) {
		t.Helper()
		for name, content := range want {
			path := filepath.Join(root, name)
			got, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(got, content) {
				t.Errorf("%s: %s has another content", what, name)
			}
			if n := blocks(t, path); n > size/4 {
				t.Errorf("%s: %s takes %d bytes", what, name, n)
			}
		}
	}
	s := p.save()
	for name, content := range want {
		if p.entities(s)[name].Hash != segno.HashOf(content) {
			t.Errorf("%s is saved as another content", name)
		}
		must(t, os.Remove(p.path(name)))
	}
	if c := p.restore(s); len(c) > 0 {
		t.Errorf("conflicts %q", c)
	}
	check("restored", p.root)
	fork := filepath.Join(t.TempDir(), "fork")
	_, err := p.dir.Fork(ctx(t), s, fork)
	must(t, err)
	check("forked", fork)
}

// counting counts the bytes that are hashed.
type counting struct {
	segno.Batch
	bytes *atomic.Int64
}

func (c counting) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	c.bytes.Add(int64(len(data)))
	return c.Batch.Put(ctx, data)
}

// TestHolesAreHashedOnce saves two dozen gigabytes of holes.
func TestHolesAreHashedOnce(t *testing.T) {
	const size, files = 63 << 20, 400
	p := newFixture(t)
	for i := range files {
		name := p.path(string(rune('a'+i/26)) + string(rune('a'+i%26)))
		must(t, os.WriteFile(name, nil, 0o644))
		must(t, os.Truncate(name, size))
	}
	var hashed atomic.Int64
	s, err := p.dir.Snapshot(ctx(t), counting{nowhere{}, &hashed})
	must(t, err)
	if n := hashed.Load(); n > 2*size {
		t.Errorf("%d MiB were hashed", n>>20)
	}
	if s.Files+len(s.Unread) == 0 || s.Bytes > 16<<30 {
		t.Errorf("%d files, %d GiB", s.Files, s.Bytes>>30)
	}
}
