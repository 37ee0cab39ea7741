package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a test\n"

// sparse makes a file with a size but without data.
func (p *fixture) sparse(rel string, size int64) {
	p.t.Helper()
	p.write(rel, "")
	must(p.t, os.Truncate(p.path(rel), size))
}

func TestWhatIsProtected(t *testing.T) {
	p := newFixture(t)
	for _, path := range []string{
		"js/package.json", "js/node_modules/x", "js/sub/node_modules/x", // with a marker beside it, and without one
		"npm/node_modules/x", "npm/node_modules/.package-lock.json", "pnpm/node_modules/.modules.yaml",
		"rs/Cargo.toml", "rs/target/x", "src/target/x",
		"py/.venv/pyvenv.cfg", "py/.venv/lib/x", "py/venv/x", "py/__pycache__/x.pyc",
		"cache/x", "notcache/x", "go/vendor/x", "go/go.mod",
		"own/named.log", "own/keep.log", "own/named/x", "kept/package.json", "kept/node_modules/x",
		"repo/.git/HEAD", "repo/file", "store/objects",
	} {
		p.write(path, "x")
	}
	p.write("cache/CACHEDIR.TAG", cacheTag)
	p.write("notcache/CACHEDIR.TAG", "Signature: something else")
	p.write(".segnoignore", "*.log\n!keep.log\n/own/named/\n!/kept/node_modules\n")
	p.write("worktree/.git", "gitdir: ../elsewhere\n")
	p.sparse("large", 64<<20+1)
	p.sparse("fits", 64<<20)
	p.open(workspace.Options{Index: p.index, Exclude: []string{p.path("store")}})
	want := map[string]string{
		"js/node_modules": "can be made again", "npm/node_modules": "can be made again", "pnpm/node_modules": "can be made again", "rs/target": "can be made again", "py/.venv": "can be made again",
		"cache": "cache directory", "own/named.log": ".segnoignore", "own/named": ".segnoignore",
		"repo/.git": "git", "store": "segno's own", "large": "larger than 64 MiB",
	}
	for _, what := range []string{"with nothing known", "with an index"} {
		got := make(map[string]string)
		for path, e := range p.entities(p.save()) {
			if e.Type == segno.EntityProtected {
				got[path] = e.Why
			}
			for dir := range want {
				if strings.HasPrefix(path, dir+"/") {
					t.Errorf("%s: %s was entered", what, path)
				}
			}
		}
		for path, why := range want {
			if got[path] != why {
				t.Errorf("%s: %s is protected as %q, want %q", what, path, got[path], why)
			}
			delete(got, path)
		}
		if len(got) > 0 {
			t.Errorf("%s: also protected: %q", what, got)
		}
	}
}

// TestRulesDoNotProtectThemselves uses a .segnoignore that matches every path. The file itself
// must be saved, so that a restore can undo the change of the rules.
func TestRulesDoNotProtectThemselves(t *testing.T) {
	p := newFixture(t)
	p.write("a", "1")
	p.write(".segnoignore", "*\n.segnoignore\n")
	p.write("sub/.segnoignore", "x")
	p.open(workspace.Options{Index: p.index})
	all := p.entities(p.save())
	if e := all[".segnoignore"]; e.Type != segno.EntityFile {
		t.Errorf(".segnoignore is %+v", e)
	}
	for _, path := range []string{"a", "sub"} {
		if e := all[path]; e.Type != segno.EntityProtected {
			t.Errorf("%s is %+v", path, e)
		}
	}
}

// TestProtectionEndsWithItsMarker adds and removes markers.
func TestProtectionEndsWithItsMarker(t *testing.T) {
	p := newFixture(t)
	p.write("node_modules/x", "1")
	p.write("cache/x", "1")
	p.write("a.log", "1")
	for _, cause := range []struct{ path, content, protects string }{
		{"package.json", "{}", "node_modules"},
		{"cache/CACHEDIR.TAG", cacheTag, "cache"},
		{".segnoignore", "*.log", "a.log"},
	} {
		for _, there := range []bool{false, true, false} {
			if there {
				p.write(cause.path, cause.content)
			} else {
				os.Remove(p.path(cause.path))
			}
			got := p.entities(p.save())[cause.protects].Type == segno.EntityProtected
			if got != there {
				t.Errorf("%s there %v: %s protected %v", cause.path, there, cause.protects, got)
			}
			if a, b := p.save(), p.saveBy(p.other(workspace.Options{})); a.Tree != b.Tree {
				t.Errorf("%s: the index misleads: %v", cause.path, p.diff(a, b))
			}
		}
	}
}

// TestAFileThatChangesWhileItIsRead changes a file after a snapshot has applied the rules to it, and before it reads the
// content. The next snapshot applies the rules to the changed file.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	for _, c := range []struct {
		path, protected, why string
		change               func(p *fixture, path string)
	}{
		{"dir/CACHEDIR.TAG", "dir", "cache directory", func(p *fixture, path string) { p.write(path, cacheTag) }},
		{"dir/log", "dir/log", "larger than 8 MiB and ignored by git", func(p *fixture, path string) { p.sparse(path, 8<<20+1) }},
	} {
		p := newFixture(t)
		git(t, p.root, "init", "-q")
		p.write(".gitignore", "log\n")
		p.save()
		p.write(c.path, "x")
		change := sync.OnceFunc(func() { c.change(p, c.path) })
		p.dir.SetBeforeRead(change)
		p.save()
		if e := p.entities(p.save())[c.protected]; e.Why != c.why {
			t.Errorf("%s: %+v, want %q", c.protected, e, c.why)
		}
	}
}

func TestALargeFileIsSavedUnlessGitIgnoresIt(t *testing.T) {
	p := newFixture(t)
	git(t, p.root, "init", "-q")
	p.write(".gitignore", "*.bin\nsub/\n")
	p.write("nested/.gitignore", "n.dat\n")
	git(t, p.root, "init", "-q", "nested")
	size := int64(8<<20 + 1)
	p.sparse("ignored.bin", size)
	p.sparse("tracked.bin", size+1)
	git(t, p.root, "add", "-f", "tracked.bin")
	p.sparse("free.dat", size+2)
	p.sparse("nested/n.dat", size+3)
	p.sparse("nested/m.bin", size+4) // the rule of the outer repository
	p.write("small.bin", "small")
	index, err := os.ReadFile(p.path(".git/index"))
	must(t, err)
	for range 2 {
		all := p.entities(p.save())
		for path, want := range map[string]segno.EntityType{
			"ignored.bin": segno.EntityProtected, "nested/n.dat": segno.EntityProtected, "tracked.bin": segno.EntityFile,
			"free.dat": segno.EntityFile, "nested/m.bin": segno.EntityFile, "small.bin": segno.EntityFile,
		} {
			if all[path].Type != want {
				t.Errorf("%s is %v, want %s", path, all[path], want)
			}
		}
	}
	if after, err := os.ReadFile(p.path(".git/index")); err != nil || string(after) != string(index) {
		t.Error("git's index was written")
	}
}

// TestARestoreLeavesTheProtectedAlone reverts and repeats a turn that made protected
// directories, one of them in the place of saved paths.
func TestARestoreLeavesTheProtectedAlone(t *testing.T) {
	p := newFixture(t)
	p.write("package.json", "{}")
	p.write("src/a", "1")
	before := p.save()
	p.write("node_modules/x/y", "precious")
	p.write("src/node_modules/z", "stored, as no marker is beside it")
	p.write("src/.git/HEAD", "precious too")
	p.write("src/a", "2")
	after := p.save()

	if c := p.restore(before); len(c) > 0 {
		t.Errorf("conflicts %q", c)
	}
	if p.read("node_modules/x/y") != "precious" || p.read("src/.git/HEAD") != "precious too" || p.read("src/a") != "1" {
		t.Error("back: not what it should be")
	}
	if _, err := os.Lstat(p.path("src/node_modules")); err == nil {
		t.Error("what is stored and was not there before is still there")
	}
	if c := p.restore(after); len(c) > 0 {
		t.Errorf("conflicts %q", c)
	}
	must(t, os.RemoveAll(p.path("node_modules")))
	if c := p.restore(after); len(c) != 1 || c[0].Path != "node_modules" || !strings.Contains(c[0].Why, "not stored") {
		t.Errorf("conflicts %q, want one for node_modules", c)
	}
	// The path at which a file must be written is protected.
	must(t, os.RemoveAll(p.path("src")))
	p.write("src", "a file")
	file := p.save()
	must(t, os.Remove(p.path("src")))
	p.write("src/.git/HEAD", "precious three")
	if c := p.restore(file); len(c) != 1 || c[0].Path != "src" {
		t.Errorf("conflicts %q, want one for src", c)
	}
	if p.read("src/.git/HEAD") != "precious three" {
		t.Error("the .git in the way was touched")
	}
}

// TestASnapshotAndARestoreGiveOneReason uses paths that two rules protect: a snapshot and a restore must
// name the same one, because they compare the reasons.
func TestASnapshotAndARestoreGiveOneReason(t *testing.T) {
	p := newFixture(t)
	p.sparse("data.db", 64<<20+1)
	p.write("a/b/named/x", "1")
	p.write(".segnoignore", "/a/b/named/\n")
	p.open(workspace.Options{Index: p.index, Databases: func() (databases, beside []string) { return []string{p.path("data.db")}, nil }})
	p.dir.SetBudget(1<<30, 2)
	saved := p.entities(p.save())
	for _, path := range []string{"data.db", "a/b/named"} {
		step := segno.Change{Path: path, From: segno.Entity{Type: segno.EntityFile, Mode: 0o644}}
		conflicts, err := p.dir.Apply(ctx(t), []segno.Change{step}, segno.Hash{})
		must(t, err)
		if want := "it is protected: " + saved[path].Why; saved[path].Why == "" || len(conflicts) != 1 || conflicts[0].Why != want {
			t.Errorf("conflicts %q, want %q for %s", conflicts, want, path)
		}
	}
}

// TestAStepIntoTheProtectedIsAConflict applies steps from a time at which the directory was not
// protected.
func TestAStepIntoTheProtectedIsAConflict(t *testing.T) {
	for marker, content := range map[string]string{
		"package.json": "{}", "node_modules/CACHEDIR.TAG": cacheTag, ".segnoignore": "node_modules/",
	} {
		p := newFixture(t)
		p.write("node_modules/a", "old")
		first := p.save()
		p.write("node_modules/a", "new")
		open := p.save()
		steps := p.diff(open, first)
		p.write(marker, content)
		for _, c := range p.diff(open, p.save()) {
			if c.Path != "node_modules" && c.Path != marker {
				t.Errorf("that it became protected changes %s, which is still there", c.Path)
			}
		}
		conflicts, err := p.dir.Apply(ctx(t), steps, first.Times)
		must(t, err)
		if len(conflicts) != 1 || !strings.Contains(conflicts[0].Why, "protected") || p.read("node_modules/a") != "new" {
			t.Errorf("%s: conflicts %q, content %q", marker, conflicts, p.read("node_modules/a"))
		}
	}
}

func TestGitIsRead(t *testing.T) {
	p := newFixture(t)
	p.write(".git", "this leads nowhere")
	if s := p.save(); s.Git != nil {
		t.Errorf("without a repository: %+v", s.Git)
	}
	must(t, os.Remove(p.path(".git")))
	git(t, p.root, "init", "-q", "-b", "main")
	if s := p.save(); *s.Git != (segno.Git{Branch: "main"}) {
		t.Errorf("unborn: %+v", s.Git)
	}
	p.write("sub/f", "1")
	git(t, p.root, "add", ".")
	git(t, p.root, "commit", "-qm", "one")
	head := git(t, p.root, "rev-parse", "HEAD")
	is := func(what string, d *workspace.Dir, want segno.Git) {
		t.Helper()
		if s := p.saveBy(d); s.Git == nil || *s.Git != want {
			t.Errorf("%s: %+v, want %+v", what, s.Git, want)
		}
	}
	is("a branch", p.dir, segno.Git{Head: head, Branch: "main"})
	sub, err := workspace.Open(p.path("sub"), workspace.Options{ID: "s", Objects: p.store})
	must(t, err)
	is("a directory inside", sub, segno.Git{Head: head, Branch: "main"})
	git(t, p.root, "pack-refs", "--all")
	is("packed", p.dir, segno.Git{Head: head, Branch: "main"})
	linked := filepath.Join(filepath.Dir(p.root), "linked")
	git(t, p.root, "worktree", "add", "-q", "-b", "topic/x", linked)
	other, err := workspace.Open(linked, workspace.Options{ID: "l", Objects: p.store})
	must(t, err)
	is("a worktree", other, segno.Git{Head: head, Branch: "topic/x"})
	git(t, p.root, "checkout", "-q", "--detach")
	is("detached", p.dir, segno.Git{Head: head})
	must(t, os.WriteFile(p.path(".git/MERGE_HEAD"), []byte(head), 0o644))
	is("a merge", p.dir, segno.Git{Head: head, Operation: "merge"})
	must(t, os.Mkdir(p.path(".git/rebase-merge"), 0o755))
	is("a rebase", p.dir, segno.Git{Head: head, Operation: "rebase"})
}
