package workspace_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/workspace"
)

func ctx(t testing.TB) context.Context { return t.Context() }

// TestRestoreIsExact edits a tree at random, saves it from time to time, and returns to saved
// states in any order. Each time the tree must equal the saved one, and a snapshot with an
// index must equal one without.
func TestRestoreIsExact(t *testing.T) {
	soak.Rapid(t, 50, 2000)
	rapid.Check(t, func(r *rapid.T) {
		p := newFixture(t)
		var states []seen
		var saved []segno.Snapshot
		for range rapid.IntRange(2, 4).Draw(r, "states") {
			for range rapid.IntRange(0, 12).Draw(r, "edits") {
				edit(r, p.root)
			}
			s := p.save()
			if full := p.saveBy(p.other(workspace.Options{})); full.Tree != s.Tree || full.Times != s.Times || full.Files != s.Files || full.Bytes != s.Bytes {
				r.Fatalf("a scan with the index differs from one without:\n%v\n%v", s, full)
			}
			saved, states = append(saved, s), append(states, p.look())
		}
		for range 3 {
			i := rapid.IntRange(0, len(saved)-1).Draw(r, "back to")
			before := p.look()
			present := p.save()
			steps := p.diff(present, saved[i])
			conflicts, err := p.dir.Apply(t.Context(), steps, saved[i].Times)
			if err != nil {
				r.Fatalf("restore: %v\nsteps %v", err, steps)
			}
			after := p.look()
			compare(r, after, seen{maps.Clone(states[i].tree), states[i].git, states[i].mtime}, before, conflicts, steps)
			for path, line := range before.git {
				if after.git[path] != line {
					r.Fatalf("%q inside a .git was touched", path)
				}
			}
		}
		removeAll(t, filepath.Dir(p.root))
	})
}

// compare checks that after equals want. A conflict is allowed only at a .git. A path may
// differ only because of a conflict or a .git inside it.
func compare(r *rapid.T, after, want, before seen, conflicts []segno.Conflict, steps []segno.Change) {
	excused := func(path string) bool {
		for _, c := range conflicts {
			if related(c.Path, path) {
				return true
			}
		}
		_, wanted := want.tree[path]
		return !wanted && anyRelated(after.git, path)
	}
	for _, c := range conflicts {
		if !anyRelated(before.git, c.Path) && !anyRelated(want.git, c.Path) {
			r.Fatalf("%q is a conflict: %s\nall %q\nsteps %v", c.Path, c.Why, conflicts, steps)
		}
	}
	for _, tree := range []map[string]string{after.tree, want.tree} {
		for path, line := range tree {
			if excused(path) {
				delete(after.tree, path)
				delete(want.tree, path)
			} else if rest, first, linked := strings.Cut(line, " = "); linked && excused(first) {
				after.tree[path], want.tree[path] = rest, rest
			}
		}
	}
	sameTree(r, fmt.Sprintf("after a restore with conflicts %q and steps %v", conflicts, steps), after, want)
	for _, s := range steps {
		if s.To.Type == segno.EntityFile && !excused(s.Path) && after.mtime[s.Path] != want.mtime[s.Path] {
			r.Fatalf("%q came back with another time", s.Path)
		}
	}
}

// related reports whether one path is the other or in it.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func anyRelated(paths map[string]string, path string) bool {
	for p := range paths {
		if related(strings.TrimSuffix(p, "/.git"), path) {
			return true
		}
	}
	return false
}

var names = []string{"a", "b", "c", "a", "b", "c", "a", "b", "d", "a b", "a.b", "a-", "\xff\xfe", "new\nline", "-rf", "ü", ".hidden", "#x", "*", `\`, ".segno-x", strings.Repeat("n", 255)}

// dirs returns the paths, relative to the root, of all directories outside any .git.
func dirs(root string) (out []string) {
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return filepath.SkipDir
		}
		if d.IsDir() {
			out = append(out, path[len(root):])
		}
		return nil
	})
	return out
}

// edit changes something in the tree. It ignores changes that are not possible.
func edit(r *rapid.T, root string) {
	all := dirs(root)
	pick := func(what string) string {
		return root + rapid.SampledFrom(all).Draw(r, "dir") + "/" + rapid.SampledFrom(names).Draw(r, what)
	}
	path := pick("name")
	fi, err := os.Lstat(path)
	exists := err == nil
	isFile := exists && fi.Mode().IsRegular()
	isLink := exists && fi.Mode()&os.ModeSymlink != 0 // never write through a link: it may point out of the tree
	content := rapid.SampledFrom([]string{"", "one", "two", "six", "a longer text\n"}).Draw(r, "content")
	switch rapid.IntRange(0, 13).Draw(r, "edit") {
	case 0, 1:
		if isLink {
			os.Remove(path)
		}
		os.WriteFile(path, []byte(content), 0o644)
	case 2: // same size, and the old time restored
		if isFile {
			os.WriteFile(path, []byte(strings.Repeat("z", int(fi.Size()))), 0o644)
			os.Chtimes(path, time.Time{}, fi.ModTime())
		}
	case 3:
		os.RemoveAll(path)
	case 4:
		os.Rename(path, pick("to"))
	case 5:
		if exists && fi.Mode()&os.ModeSymlink == 0 {
			mode := rapid.SampledFrom([]uint32{0o600, 0o644, 0o755, 0o4755, 0o2711, 0o1777, 0o555, 0o400, 0}).Draw(r, "mode")
			if os.Geteuid() != 0 { // TestAsAnotherUser tests paths that their owner cannot read
				mode |= 0o400
				if fi.IsDir() {
					mode |= 0o500
				}
			}
			unix.Chmod(path, mode)
		}
	case 6:
		os.Symlink(rapid.SampledFrom([]string{"..", "/nowhere/file", "nowhere", "a", "../outside"}).Draw(r, "target"), path)
	case 7:
		os.Link(path, pick("link"))
	case 8:
		os.Mkdir(path, 0o755)
	case 9:
		if !isLink {
			os.MkdirAll(path+"/b/c", 0o755)
		}
	case 10:
		name := rapid.SampledFrom([]string{"user.a", "user.b"}).Draw(r, "attribute")
		if content == "" {
			unix.Lremovexattr(path, name)
		} else {
			unix.Lsetxattr(path, name, []byte(content), 0)
		}
	case 11:
		if isFile {
			os.Chtimes(path, time.Time{}, time.Unix(rapid.Int64Range(0, 1<<31).Draw(r, "time"), 5))
		}
	case 12: // a file becomes a directory, a directory a file
		os.RemoveAll(path)
		if isFile {
			os.Mkdir(path, 0o700)
			os.WriteFile(path+"/a", []byte(content), 0o600)
		} else {
			os.WriteFile(path, []byte(content), 0o644)
		}
	case 13: // a nested repository
		if !isLink {
			os.MkdirAll(path+"/.git/refs", 0o755)
			os.WriteFile(path+"/.git/HEAD", []byte("ref: refs/heads/main\n"), 0o644)
			os.WriteFile(path+"/tracked", []byte(content), 0o644)
		}
	}
}
