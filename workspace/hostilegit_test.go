package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// repo makes a repository with one commit.
func repo(t testing.TB, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	git(t, dir, "init", "-q", "-b", "main")
	must(t, os.WriteFile(dir+"/f", []byte("1"), 0o644))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
}

// beside returns a path next to the tree.
func (p *fixture) beside(name string) string { return filepath.Join(filepath.Dir(p.root), name) }

// forks forks s to a directory beside the tree.
func (p *fixture) forks(s segno.Snapshot) (segno.ForkReport, string, error) {
	p.t.Helper()
	dir := p.beside("fork")
	r, err := p.dir.Fork(ctx(p.t), s, dir)
	return r, dir, err
}

// refuses fails the test unless a fork is refused with a hint and leaves no files.
func (p *fixture) refuses(s segno.Snapshot) {
	p.t.Helper()
	before, err := os.ReadDir(filepath.Dir(p.root))
	must(p.t, err)
	_, _, err = p.forks(s)
	if segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
		p.t.Errorf("fork: %v, hint %q; want it refused with a hint", err, segno.HintOf(err))
	}
	after, err := os.ReadDir(filepath.Dir(p.root))
	must(p.t, err)
	if len(before) != len(after) {
		p.t.Errorf("beside the tree there is now %v", after)
	}
}

// TestForkRemovesNothingThroughASymlink makes .git/worktrees a link to directories of the user:
// outside the tree, in another part of it, and through a second link.
func TestForkRemovesNothingThroughASymlink(t *testing.T) {
	for _, through := range []string{"absolute", "relative", "within", "chain", "entry", "nested"} {
		t.Run(through, func(t *testing.T) {
			p := newFixture(t)
			repo(t, p.root)
			precious := p.beside("precious")
			if through == "within" {
				precious = p.path("precious")
			}
			for _, name := range []string{"one/file", "two/gitdir"} {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(precious, name)), 0o755))
				must(t, os.WriteFile(filepath.Join(precious, name), []byte("/nowhere/.git\n"), 0o644))
			}
			at, target := p.path(".git/worktrees"), precious
			switch through {
			case "relative":
				target = "../../precious"
			case "within":
				target = "../precious"
			case "chain":
				must(t, os.Symlink(precious, p.path("link")))
				target = "../link"
			case "entry":
				must(t, os.Mkdir(at, 0o755))
				at = filepath.Join(at, "evil")
			case "nested":
				repo(t, p.path("sub"))
				at = p.path("sub/.git/worktrees")
			}
			must(t, os.Symlink(target, at))
			before, tree := look(t, precious), p.look()
			_, dir, err := p.forks(p.save())
			must(t, err)
			sameTree(t, "what the link leads to", look(t, precious), before)
			sameTree(t, "the source", p.look(), tree)
			if through == "within" {
				sameTree(t, "its copy", look(t, dir+"/precious"), before)
			}
			git(t, dir, "status")
		})
	}
}

// TestForkNeverWritesToTheSourceRepository replaces parts of .git with symlinks to another
// repository, as git-new-workdir does. Either the fork must be refused, or a commit in it must
// change nothing but the fork.
func TestForkNeverWritesToTheSourceRepository(t *testing.T) {
	for _, part := range []string{"objects", "refs", "packed-refs", "config", "HEAD", "index", "objects/pack", "refs/heads", "commondir", "worktree", "logs", "info", "rr-cache"} {
		t.Run(strings.ReplaceAll(part, "/", "_"), func(t *testing.T) {
			p := newFixture(t)
			repo(t, p.root)
			foreign := p.beside("foreign")
			repo(t, foreign)
			git(t, foreign, "pack-refs", "--all")
			git(t, foreign, "repack", "-adq")
			must(t, os.Mkdir(foreign+"/.git/rr-cache", 0o755))
			switch part {
			case "commondir":
				p.write(".git/commondir", foreign+"/.git\n")
			case "worktree":
				git(t, p.root, "config", "core.worktree", p.root)
			default:
				must(t, os.RemoveAll(p.path(".git/"+part)))
				must(t, os.Symlink(foreign+"/.git/"+part, p.path(".git/"+part)))
			}
			source, other := p.look(), look(t, foreign)
			_, dir, err := p.forks(p.save())
			sameTree(t, "the source", p.look(), source)
			sameTree(t, "the foreign repository", look(t, foreign), other)
			if err != nil {
				if segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
					t.Errorf("fork: %v, hint %q", err, segno.HintOf(err))
				}
				return
			}
			must(t, os.WriteFile(dir+"/f", []byte("2"), 0o644))
			git(t, dir, "commit", "-qam", "two")
			git(t, dir, "checkout", "-q", "HEAD~1")
			sameTree(t, "the source after a commit in the fork", p.look(), source)
			sameTree(t, "the foreign repository after a commit in the fork", look(t, foreign), other)
		})
	}
}

// TestForkKeepsLinksThatAreSafe uses hooks that are links, as some users have, and a HEAD that
// is a link, as old versions of git make it.
func TestForkKeepsLinksThatAreSafe(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	p.write("scripts/check", "#!/bin/sh\n")
	for name, to := range map[string]string{
		"hooks/pre-commit": "../../scripts/check", "hooks/pre-push": p.path("scripts/check"), "hooks/post-merge": "/bin/true",
	} {
		must(t, os.Symlink(to, p.path(".git/"+name)))
	}
	must(t, os.Remove(p.path(".git/HEAD")))
	must(t, os.Symlink("refs/heads/main", p.path(".git/HEAD")))
	s := p.save()
	if s.Git == nil || s.Git.Branch != "main" || s.Git.Head == "" {
		t.Errorf("git is %+v", s.Git)
	}
	report, dir, err := p.forks(s)
	must(t, err)
	if len(report.LeftOut) > 0 {
		t.Errorf("left out %q", report.LeftOut)
	}
	for name, want := range map[string]string{
		"hooks/pre-commit": dir + "/scripts/check", "hooks/pre-push": dir + "/scripts/check", "hooks/post-merge": "/bin/true", "HEAD": dir + "/.git/refs/heads/main",
	} {
		to, err := os.Readlink(dir + "/.git/" + name)
		must(t, err)
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(dir+"/.git/"+name), to)
		}
		if to != want {
			t.Errorf("%s leads to %s, want %s", name, to, want)
		}
	}
	if got := git(t, dir, "rev-parse", "HEAD"); got != s.Git.Head {
		t.Errorf("the fork is at %s, want %s", got, s.Git.Head)
	}
}

// TestForkDropsWorktreesThatAreNotItsOwn registers worktrees with a relative path, and with a
// common directory of another repository.
func TestForkDropsWorktreesThatAreNotItsOwn(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	foreign := p.beside("foreign")
	repo(t, foreign)
	git(t, p.root, "worktree", "add", "-q", p.beside("linked"))
	git(t, p.root, "worktree", "add", "-q", p.path("within"))
	git(t, p.root, "worktree", "add", "-q", p.path("shared"))
	p.write(".git/worktrees/linked/gitdir", "../../../../linked/.git\n")
	p.write(".git/worktrees/within/gitdir", "../../../within/.git\n")
	p.write(".git/worktrees/shared/commondir", foreign+"/.git\n")
	must(t, os.Remove(p.path("shared/.git")))
	before := look(t, p.beside("linked"))
	_, dir, err := p.forks(p.save())
	must(t, err)
	names, err := os.ReadDir(dir + "/.git/worktrees")
	must(t, err)
	if len(names) != 1 || names[0].Name() != "within" {
		t.Errorf("the fork has the worktrees %v", names)
	}
	sameTree(t, "the linked worktree", look(t, p.beside("linked")), before)
}

// TestForkMovesTheWorktreeOfAModule uses a submodule whose configuration names its directory by
// an absolute path, in a rare form.
func TestForkMovesTheWorktreeOfAModule(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	lib := p.beside("lib")
	repo(t, lib)
	git(t, p.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "sub")
	text, err := os.ReadFile(p.path(".git/modules/sub/config"))
	must(t, err)
	text = []byte(strings.Replace(string(text), "worktree = ../../../sub", "WorkTree=\""+p.path("sub")+"\" ; here", 1))
	must(t, os.WriteFile(p.path(".git/modules/sub/config"), text, 0o600))
	must(t, os.Chmod(p.path(".git/modules/sub/config"), 0o600))
	_, dir, err := p.forks(p.save())
	must(t, err)
	if got := git(t, dir+"/sub", "rev-parse", "--show-toplevel"); got != dir+"/sub" {
		t.Errorf("the submodule of the fork works in %s", got)
	}
	fi, err := os.Stat(dir + "/.git/modules/sub/config")
	must(t, err)
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("its config has mode %v", fi.Mode())
	}
}

// TestForkRefusesRepositoriesOfOtherDirectories uses .git files and links to directories on
// which they have no claim.
func TestForkRefusesRepositoriesOfOtherDirectories(t *testing.T) {
	secret := func(p *fixture) string {
		dir := p.beside("ssh")
		must(p.t, os.Mkdir(dir, 0o700))
		must(p.t, os.WriteFile(dir+"/id_rsa", []byte("secret"), 0o600))
		return dir
	}
	private := func(p *fixture) string {
		repo(p.t, p.beside("private"))
		return p.beside("private/.git")
	}
	for name, prepare := range map[string]func(p *fixture){
		"a directory of secrets": func(p *fixture) { p.write(".git", "gitdir: "+secret(p)+"\n") },
		"through a symlink":      func(p *fixture) { must(p.t, os.Symlink(secret(p), p.path(".git"))) },
		"another repository":     func(p *fixture) { p.write(".git", "gitdir: "+private(p)+"\n") },
		"another one by a link":  func(p *fixture) { must(p.t, os.Symlink(private(p), p.path(".git"))) },
		"further down":           func(p *fixture) { p.write("a/b/.git", "gitdir: "+private(p)+"\n") },
		"in what is made again": func(p *fixture) {
			p.write("package.json", "{}")
			p.write("node_modules/x/.git", "gitdir: "+secret(p)+"\n")
		},
		"a worktree of another": func(p *fixture) {
			git(p.t, filepath.Dir(private(p)), "worktree", "add", "-q", p.beside("theirs"))
			p.write(".git", "gitdir: "+p.beside("private/.git/worktrees/theirs")+"\n")
		},
		"a false worktree of another": func(p *fixture) {
			common := private(p)
			p.write("evil/HEAD", "ref: refs/heads/main\n")
			p.write("evil/commondir", common+"\n")
			p.write("evil/gitdir", p.path(".git")+"\n")
			p.write(".git", "gitdir: evil\n")
		},
		"objects that lead elsewhere": func(p *fixture) {
			common := private(p)
			must(p.t, os.Rename(common+"/objects", p.beside("objects")))
			must(p.t, os.Symlink(p.beside("objects"), common+"/objects"))
			git(p.t, filepath.Dir(common), "config", "core.worktree", p.root)
			p.write(".git", "gitdir: "+common+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			p.write("file", "1")
			prepare(p)
			s := p.save()
			if _, err := os.Lstat(p.path(".git")); err == nil && s.Git != nil {
				t.Errorf("the snapshot says %+v of a repository that is not its own", s.Git)
			}
			p.refuses(s)
		})
	}
}

// TestForkCopiesARepositoryThatPointsBack tests the forms in which a repository outside the
// tree names its tree.
func TestForkCopiesARepositoryThatPointsBack(t *testing.T) {
	for name, prepare := range map[string]func(p *fixture){
		"core.worktree": func(p *fixture) {
			git(p.t, p.root, "init", "-q", "-b", "main", "--separate-git-dir", p.beside("elsewhere"))
			git(p.t, p.root, "config", "core.worktree", p.root)
		},
		"a link": func(p *fixture) {
			git(p.t, p.root, "init", "-q", "-b", "main")
			must(p.t, os.Rename(p.path(".git"), p.beside("elsewhere")))
			must(p.t, os.Symlink(p.beside("elsewhere"), p.path(".git")))
			git(p.t, p.root, "config", "core.worktree", "../tree")
		},
		"a relative worktree": func(p *fixture) {
			repo(p.t, p.beside("main"))
			must(p.t, os.Remove(p.root))
			git(p.t, p.beside("main"), "worktree", "add", "-q", p.root)
			must(p.t, os.WriteFile(p.beside("main/.git/worktrees/tree/gitdir"), []byte("../../../../tree/.git\n"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			prepare(p)
			p.write("new", "1")
			git(t, p.root, "add", ".")
			git(t, p.root, "commit", "-qm", "new")
			s := p.save()
			if head := git(t, p.root, "rev-parse", "HEAD"); s.Git == nil || s.Git.Head != head {
				t.Errorf("git is %+v, want %s", s.Git, head)
			}
			_, dir, err := p.forks(s)
			must(t, err)
			must(t, os.WriteFile(dir+"/new", []byte("2"), 0o644))
			git(t, dir, "commit", "-qam", "in the fork")
			if got := git(t, p.root, "rev-parse", "HEAD"); got != s.Git.Head {
				t.Errorf("a commit in the fork moved the source to %s", got)
			}
			if got := git(t, p.root, "status", "--porcelain"); got != "" {
				t.Errorf("the source is not clean: %q", got)
			}
		})
	}
}

// TestASymlinkThatAppearsInAForkIsNotFollowed creates a symlink in the incomplete copy, at each
// write of a fork in turn, in the place of registered worktrees. The target of the symlink must
// not change.
func TestASymlinkThatAppearsInAForkIsNotFollowed(t *testing.T) {
	for n := 1; ; n++ {
		p := newFixture(t)
		p.write(".git/HEAD", "ref: refs/heads/main\n")
		p.write(".git/config", "[core]\n\tworktree = "+p.root+"\n")
		precious := p.beside("precious")
		for _, name := range []string{"one/gitdir", "one/commondir", "config"} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(precious, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(precious, name), []byte("/nowhere/.git\n"), 0o644))
		}
		p.write(".git/worktrees/one/gitdir", "/nowhere/.git\n")
		s, before := p.save(), look(t, precious)
		swapped := false
		fsys := swapper{FS: unsynced{vfs.OS}, left: &countdown{n: n}, swap: func() {
			at, err := filepath.Glob(p.beside(".segno-fork-*/.git"))
			must(t, err)
			for _, dir := range at {
				must(t, os.RemoveAll(dir+"/worktrees"))
				must(t, os.Symlink(precious, dir+"/worktrees"))
			}
			swapped = true
		}}
		_, err := p.other(workspace.Options{Index: p.index, FS: fsys}).Fork(ctx(t), s, p.beside("fork"))
		sameTree(t, fmt.Sprintf("what the link leads to, swapped at %d", n), look(t, precious), before)
		if !swapped {
			must(t, err)
			if n < 20 {
				t.Fatalf("only %d moments", n)
			}
			return
		}
	}
}

// TestAHostileGitHangsNothing replaces git files with files that block a reader or never end.
func TestAHostileGitHangsNothing(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	fifo := func(path string) func(p *fixture) {
		return func(p *fixture) {
			must(p.t, os.RemoveAll(p.path(path)))
			must(p.t, unix.Mkfifo(p.path(path), 0o644))
		}
	}
	link := func(path, to string) func(p *fixture) {
		return func(p *fixture) {
			must(p.t, os.RemoveAll(p.path(path)))
			must(p.t, os.Symlink(to, p.path(path)))
		}
	}
	for name, prepare := range map[string]func(p *fixture){
		"a FIFO as .git":        fifo(".git"),
		"a FIFO as HEAD":        fifo(".git/HEAD"),
		"a FIFO as refs":        fifo(".git/refs/heads/main"),
		"a FIFO as commondir":   fifo(".git/commondir"),
		"a FIFO as config":      fifo(".git/config"),
		"a FIFO as packed-refs": func(p *fixture) { fifo(".git/packed-refs")(p); must(p.t, os.Remove(p.path(".git/refs/heads/main"))) },
		"HEAD that never ends":  link(".git/HEAD", "/dev/zero"),
		".git that never ends":  link(".git", "/dev/zero"),
		"refs that never end":   link(".git/refs/heads/main", "/dev/zero"),
		"packed-refs that never end": func(p *fixture) {
			link(".git/packed-refs", "/dev/zero")(p)
			must(p.t, os.Remove(p.path(".git/refs/heads/main")))
		},
		"a HEAD of a gigabyte": func(p *fixture) { must(p.t, os.Truncate(p.path(".git/HEAD"), 1<<30)) },
		"a .git file of a gigabyte": func(p *fixture) {
			must(p.t, os.RemoveAll(p.path(".git")))
			p.write(".git", "gitdir: /")
			must(p.t, os.Truncate(p.path(".git"), 1<<30))
		},
		"a FIFO behind the .git file": func(p *fixture) {
			must(p.t, os.RemoveAll(p.path(".git")))
			p.write(".git", "gitdir: pipe\n")
			must(p.t, unix.Mkfifo(p.path("pipe"), 0o644))
		},
		"a FIFO as a worktree's gitdir":    func(p *fixture) { p.write(".git/worktrees/x/HEAD", ""); fifo(".git/worktrees/x/gitdir")(p) },
		"a FIFO as a worktree's commondir": func(p *fixture) { p.write(".git/worktrees/x/gitdir", "x"); fifo(".git/worktrees/x/commondir")(p) },
		"a FIFO as alternates":             fifo(".git/objects/info/alternates"),
		"a FIFO as a module's config":      func(p *fixture) { p.write(".git/modules/x/HEAD", ""); fifo(".git/modules/x/config")(p) },
		"a FIFO above the tree": func(p *fixture) {
			must(p.t, os.RemoveAll(p.path(".git")))
			must(p.t, unix.Mkfifo(p.beside(".git"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			repo(t, p.root)
			must(t, os.MkdirAll(p.path(".git/objects/info"), 0o755))
			prepare(p)
			ended := make(chan error, 1)
			limit, cancel := context.WithTimeout(ctx(t), 2*time.Minute)
			defer cancel()
			go func() {
				b := p.store.Batch()
				defer b.Close()
				s, err := p.dir.Snapshot(limit, b)
				if err == nil {
					_, err = b.Stage(limit)
				}
				if err == nil {
					_, err = p.dir.Fork(limit, s, p.beside("fork"))
					if segno.KindOf(err) == segno.KindRefused && segno.HintOf(err) != "" {
						err = nil
					}
				}
				ended <- err
			}()
			select {
			case err := <-ended:
				must(t, err)
			case <-limit.Done():
				t.Fatal("it hangs")
			}
		})
	}
}

// TestARefDoesNotLeaveTheRepository makes HEAD name a ref outside .git.
func TestARefDoesNotLeaveTheRepository(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	head := git(t, p.root, "rev-parse", "HEAD")
	must(t, os.WriteFile(p.beside("leak"), []byte(head), 0o644))
	for _, ref := range []string{"../../leak", "refs/../../../leak", p.beside("leak"), "refs/heads/leak"} {
		if ref == "refs/heads/leak" {
			must(t, os.Symlink(p.beside("leak"), p.path(".git/refs/heads/leak")))
		}
		p.write(".git/HEAD", "ref: "+ref+"\n")
		if s := p.save(); s.Git != nil && s.Git.Head != "" {
			t.Errorf("HEAD that names %s is at %s", ref, s.Git.Head)
		}
	}
}

// TestPackedRefsAreReadToTheirEnd uses more packed refs than a buffer holds.
func TestPackedRefsAreReadToTheirEnd(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	head := git(t, p.root, "rev-parse", "HEAD")
	var text strings.Builder
	for range 50_000 {
		text.WriteString(strings.Repeat("0", 40) + " refs/tags/some-tag-that-is-not-it\n")
	}
	text.WriteString(head + " refs/heads/main\n")
	must(t, os.Remove(p.path(".git/refs/heads/main")))
	p.write(".git/packed-refs", text.String())
	if s := p.save(); s.Git == nil || s.Git.Head != head {
		t.Errorf("git is %+v, want the head %s", s.Git, head)
	}
}

// TestAGitOfAnotherUserIsNotRead uses one inside the tree and one above it.
func TestAGitOfAnotherUserIsNotRead(t *testing.T) {
	p := newFixture(t)
	repo(t, p.root)
	if os.Geteuid() == 0 {
		must(t, os.Chown(p.path(".git"), 65534, 65534))
	}
	s := p.save()
	if os.Geteuid() != 0 { // only root can change an owner; the rule is the same for all users
		return
	}
	if s.Git != nil {
		t.Errorf("git is %+v", s.Git)
	}
	p.refuses(s)
	must(t, os.Rename(p.path(".git"), p.beside(".git")))
	if s := p.save(); s.Git != nil {
		t.Errorf("git above the tree is %+v", s.Git)
	}

	// A worktree of this user, in a repository that belongs to another user.
	p = newFixture(t)
	repo(t, p.beside("main"))
	must(t, os.Remove(p.root))
	git(t, p.beside("main"), "worktree", "add", "-q", p.root)
	must(t, os.Chown(p.beside("main/.git"), 65534, 65534))
	if s = p.save(); s.Git != nil {
		t.Errorf("git of the worktree is %+v", s.Git)
	}
	p.refuses(s)
}
