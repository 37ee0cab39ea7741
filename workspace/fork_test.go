package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// git runs git with a fixed user name and without the user's configuration.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@x"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *fixture) fork(s segno.Snapshot) (segno.ForkReport, string) {
	p.t.Helper()
	dir := filepath.Join(filepath.Dir(p.root), "fork")
	r, err := p.dir.Fork(ctx(p.t), s, dir)
	if err != nil {
		p.t.Fatal(err)
	}
	return r, dir
}

func TestForkRestoresTheTreeAndCopiesProtectedPaths(t *testing.T) {
	p := newFixture(t)
	p.write("a/one", "1")
	p.write("a/two", "2")
	must(t, os.Chmod(p.path("a/two"), 0o4600))
	must(t, unix.Setxattr(p.path("a/two"), "user.k", []byte("v"), 0))
	must(t, os.Link(p.path("a/one"), p.path("b")))
	must(t, os.Symlink("/etc", p.path("out")))
	must(t, os.Mkdir(p.path("empty"), 0o555))
	old, then := p.save(), p.look()
	p.write("a/one", "changed")
	p.write("new", "n")
	must(t, os.Remove(p.path("out")))
	p.write("package.json", "{}")
	p.write("node_modules/x/index.js", "x")
	must(t, unix.Mkfifo(p.path("pipe"), 0o600))
	before := p.look()

	report, dir := p.fork(old)
	got := look(t, dir)
	if got.tree["node_modules/x/index.js"] == "" {
		t.Error("the protected directory was not copied")
	}
	for path := range got.tree {
		if strings.HasPrefix(path, "node_modules") {
			delete(got.tree, path)
		}
	}
	sameTree(t, "the fork", got, then)
	for path, at := range then.mtime {
		if got.mtime[path] != at {
			t.Errorf("%s has another time in the fork", path)
		}
	}
	if want := (segno.ForkReport{Root: dir, How: report.How, Files: 2, LeftOut: []string{"pipe"}}); report.Root != want.Root || report.Files != want.Files || !slices.Equal(report.LeftOut, want.LeftOut) {
		t.Errorf("report %+v, want %+v", report, want)
	}
	sameTree(t, "the source", p.look(), before)
	p.write("a/two", "only here")
	if data, err := os.ReadFile(dir + "/a/two"); err != nil || string(data) != "2" {
		t.Errorf("a write to the source shows in the fork: %q, %v", data, err)
	}
}

// A file that became too large for a snapshot has in the fork the content that the checkpoint saved.
func TestForkHasTheSavedContentOfAFileThatIsProtectedNow(t *testing.T) {
	p := newFixture(t)
	p.write("sub/model", "small")
	s, then := p.save(), p.look()
	must(t, os.Truncate(p.path("sub/model"), 65<<20))
	_, dir := p.fork(s)
	sameTree(t, "the fork", look(t, dir), then)
	if fi, err := os.Stat(p.path("sub/model")); err != nil || fi.Size() != 65<<20 {
		t.Errorf("the source has %v, %v", fi, err)
	}
}

func TestForkOfARepositoryIsARepository(t *testing.T) {
	p := newFixture(t)
	git(t, p.root, "init", "-q", "-b", "main")
	p.write("f", "1")
	git(t, p.root, "add", ".")
	git(t, p.root, "commit", "-qm", "one")
	git(t, p.root, "worktree", "add", "-q", filepath.Join(filepath.Dir(p.root), "linked"))
	git(t, p.root, "worktree", "add", "-q", p.path("within"))
	s := p.save()
	_, dir := p.fork(s)
	head := git(t, p.root, "rev-parse", "HEAD")
	for _, at := range []string{dir, dir + "/within"} {
		if got := git(t, at, "status", "--porcelain"); strings.ReplaceAll(got, "?? within/", "") != "" {
			t.Errorf("%s is not clean: %q", at, got)
		}
		must(t, os.WriteFile(at+"/f", []byte("2"), 0o644))
		git(t, at, "commit", "-qam", "two")
	}
	if got := git(t, p.root, "rev-parse", "HEAD", "within"); got != head+"\n"+head {
		t.Errorf("a commit in the fork moved the source: %s", got)
	}
	if got := git(t, p.root, "status", "--porcelain"); got != "?? within/" {
		t.Errorf("the source is not clean: %q", got)
	}
	if got := git(t, dir, "worktree", "list"); strings.Contains(got, "linked") || !strings.Contains(got, dir+"/within") || strings.Contains(got, p.root) {
		t.Errorf("the fork's worktrees:\n%s", got)
	}
}

func TestForkOfALinkedWorktreeIsIndependent(t *testing.T) {
	base := t.TempDir()
	main := filepath.Join(base, "main")
	must(t, os.Mkdir(main, 0o755))
	git(t, main, "init", "-q", "-b", "main")
	must(t, os.WriteFile(main+"/f", []byte("1"), 0o644))
	git(t, main, "add", ".")
	git(t, main, "commit", "-qm", "one")
	p := newFixture(t)
	must(t, os.Remove(p.root))
	git(t, main, "worktree", "add", "-q", "-b", "topic", p.root)
	p.write("f", "staged")
	git(t, p.root, "add", "f")
	p.write("f", "dirty")
	before := look(t, main)

	_, dir := p.fork(p.save())
	if got := git(t, dir, "status", "--porcelain", "--branch"); got != "## topic\nMM f" {
		t.Errorf("status in the fork: %q", got)
	}
	git(t, dir, "commit", "-qam", "two")
	if got := git(t, p.root, "status", "--porcelain", "--branch"); got != "## topic\nMM f" {
		t.Errorf("status in the source: %q", got)
	}
	if got, want := git(t, main, "rev-parse", "topic"), git(t, main, "rev-parse", "main"); got != want {
		t.Error("a commit in the fork moved a branch of the source")
	}
	if got := git(t, dir, "worktree", "list"); strings.Count(got, "\n") != 0 {
		t.Errorf("the fork's worktrees:\n%s", got)
	}
	after := look(t, main)
	for path, line := range before.tree {
		if after.tree[path] != line {
			t.Errorf("%s changed", path)
		}
	}
}

func TestForkRefusesNestingAndExisting(t *testing.T) {
	p := newFixture(t)
	p.write("f", "1")
	s := p.save()
	must(t, os.Symlink(p.root, filepath.Join(filepath.Dir(p.root), "alias")))
	for dir, kind := range map[string]segno.Kind{
		p.path("in"): segno.KindRefused, p.root: segno.KindRefused, filepath.Dir(p.root): segno.KindRefused,
		filepath.Join(filepath.Dir(p.root), "alias", "in"): segno.KindRefused,
		filepath.Join(filepath.Dir(p.root), "alias"):       segno.KindConflict,
		filepath.Join(filepath.Dir(p.root), "no", "such"):  segno.KindNotFound,
	} {
		if _, err := p.dir.Fork(ctx(t), s, dir); segno.KindOf(err) != kind {
			t.Errorf("fork to %s: %v, want %v", dir, err, kind)
		}
	}
}

// TestForkLeavesOutMissingPaths forks an older state. Since then, some protected paths were
// removed and others replaced files.
func TestForkLeavesOutMissingPaths(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	p := newFixture(t)
	p.write("nested/.git/HEAD", "ref: refs/heads/main\n")
	p.write("nested/file", "1")
	p.write("node_modules/stored", "old")
	s := p.save()
	must(t, os.RemoveAll(p.path("nested")))
	p.write("package.json", "{}")
	p.write("node_modules/stored", "new")
	p.sparse("large", 64<<20+1)
	report, dir := p.fork(s)
	if want := []string{"nested/.git"}; !slices.Equal(report.LeftOut, want) {
		t.Errorf("left out %q, want %q", report.LeftOut, want)
	}
	got := look(t, dir)
	if !strings.Contains(got.tree["nested/file"], `"1"`) || got.tree["package.json"] != "" {
		t.Errorf("the fork is %q", got.tree)
	}
	if data, err := os.ReadFile(dir + "/node_modules/stored"); err != nil || string(data) != "old" {
		t.Errorf("what was not protected then is %q, %v", data, err)
	}
	if fi, err := os.Stat(dir + "/large"); err != nil || fi.Size() != 64<<20+1 {
		t.Errorf("the large file: %v, %v", fi, err)
	}
}

// TestForkOfASubmoduleIsIndependent forks a submodule whose git directory, and objects borrowed
// from another repository, are outside the tree.
func TestForkOfASubmoduleIsIndependent(t *testing.T) {
	base := t.TempDir()
	lib, super := base+"/lib", base+"/super"
	for _, dir := range []string{lib, super} {
		must(t, os.Mkdir(dir, 0o755))
		git(t, dir, "init", "-q", "-b", "main")
		must(t, os.WriteFile(dir+"/f", []byte("1"), 0o644))
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-qm", "one")
	}
	git(t, super, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--reference", lib, lib, "sub")
	p := &fixture{t: t, root: super + "/sub", store: newMemory()}
	p.open(workspace.Options{})
	s := p.save()
	if s.Git == nil || s.Git.Branch != "main" {
		t.Errorf("git is %+v", s.Git)
	}
	dir := base + "/fork"
	_, err := p.dir.Fork(ctx(t), s, dir)
	must(t, err)
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the fork is not clean: %q", got)
	}
	if got := git(t, dir, "rev-parse", "--show-toplevel"); got != dir {
		t.Errorf("the fork's root is %s", got)
	}
	must(t, os.WriteFile(dir+"/f", []byte("2"), 0o644))
	git(t, dir, "commit", "-qam", "two")
	if got := git(t, super, "status", "--porcelain"); got != "A  .gitmodules\nA  sub" {
		t.Errorf("the source: %q", got)
	}

	// In a fork of the superproject, the submodule stays a submodule.
	p = &fixture{t: t, root: super, store: newMemory()}
	p.open(workspace.Options{})
	whole := base + "/whole"
	_, err = p.dir.Fork(ctx(t), p.save(), whole)
	must(t, err)
	must(t, os.RemoveAll(super))
	if got := git(t, whole, "submodule", "status"); !strings.Contains(got, " sub (heads/main)") {
		t.Errorf("the submodule of the fork: %q", got)
	}
	if got := git(t, whole+"/sub", "status", "--porcelain"); got != "" {
		t.Errorf("the submodule of the fork is not clean: %q", got)
	}
}

// TestABareRepositoryOfWorktreesIsProtected checks the layout in which a bare repository is beside its worktrees: a restore
// takes no object from it, and a fork gets one that names the fork's worktrees only.
func TestABareRepositoryOfWorktreesIsProtected(t *testing.T) {
	p := newFixture(t)
	seed := filepath.Join(filepath.Dir(p.root), "seed")
	must(t, os.Mkdir(seed, 0o755))
	git(t, seed, "init", "-q", "-b", "main")
	must(t, os.WriteFile(seed+"/f", []byte("1"), 0o644))
	git(t, seed, "add", ".")
	git(t, seed, "commit", "-qm", "one")
	git(t, p.root, "clone", "-q", "--bare", seed, ".bare")
	p.write(".git", "gitdir: ./.bare\n")
	before := p.save()
	git(t, p.root, "worktree", "add", "-q", "main", "main")
	git(t, p.root, "worktree", "add", "-q", "-b", "user", "user")
	p.write("main/f", "2")
	git(t, p.path("main"), "commit", "-qam", "two")
	after := p.save()
	git(t, p.path("user"), "merge", "-q", "main") // the user continues from the commit
	for path, e := range p.entities(after) {
		if path == ".bare" && e.Type != segno.EntityProtected || strings.HasPrefix(path, ".bare/") {
			t.Fatalf("the snapshot has %s as %s", path, e.Type)
		}
	}
	_, dir := p.fork(after)
	if got := git(t, dir, "worktree", "list"); strings.Contains(got, p.root+"/") || !strings.Contains(got, dir+"/main") || !strings.Contains(got, dir+"/user") {
		t.Errorf("the fork's worktrees:\n%s", got)
	}
	p.restore(before)
	for _, at := range []string{p.root, dir} {
		git(t, at, "fsck")
		if got := git(t, at, "log", "--format=%s", "user"); got != "two\none" {
			t.Errorf("the user's branch in %s has %q", at, got)
		}
	}
}
