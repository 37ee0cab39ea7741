package workspace_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestTheRootOfASession looks up roots in and around repositories of every form.
func TestTheRootOfASession(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	limits := workspace.Limits{Home: filepath.Join(base, "home"), Store: filepath.Join(base, "home", "store")}
	mkdir := func(rel string) string {
		must(t, os.MkdirAll(filepath.Join(base, rel), 0o755))
		return filepath.Join(base, rel)
	}
	file := func(rel, content string) {
		mkdir(filepath.Dir(rel))
		must(t, os.WriteFile(filepath.Join(base, rel), []byte(content), 0o644))
	}
	mkdir("home/store")
	known := make(register)
	first, err := workspace.Register(ctx(t), known, mkdir("known"), limits)
	must(t, err)

	file("repo/.git/HEAD", "ref: refs/heads/main\n")
	file("sub/.git", "gitdir: /nowhere\n")
	mkdir("empty/.git/objects")
	mkdir("link/in")
	must(t, os.Symlink("/nowhere", filepath.Join(base, "link", ".git")))
	mkdir("fifo/in")
	must(t, syscall.Mkfifo(filepath.Join(base, "fifo", ".git"), 0o600))
	mkdir("head/.git")
	must(t, syscall.Mkfifo(filepath.Join(base, "head", ".git", "HEAD"), 0o600))
	file("home/.git/HEAD", "ref: refs/heads/main\n")
	file("known/nested/.git/HEAD", "ref: refs/heads/main\n")
	file("known/.claude/worktrees/one/.git", "gitdir: ../../../.git/worktrees/one\n")
	file("holder/.git/HEAD", "ref: refs/heads/main\n")
	file("repo/package.json", "{}")
	file("known/package.json", "{}")
	file("repo/.segnoignore", "private/\n")
	file("repo/cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")
	file("repo/node_modules/own/.git/HEAD", "ref: refs/heads/main\n")

	for dir, want := range map[string]string{
		"plain":                              "plain",
		"repo":                               "repo",
		"repo/a/b":                           "repo",
		"sub/a":                              "sub",
		"empty/a":                            "empty/a",
		"link/in":                            "link",
		"fifo/in":                            "fifo/in",
		"head/in":                            "head",
		"home/notes":                         "home/notes",
		"known/a/b":                          "known",
		"known/nested/a":                     "known",
		"known/.claude/worktrees/one":        "known/.claude/worktrees/one",
		"known/.claude/worktrees/one/src":    "known/.claude/worktrees/one",
		"known/.claude/worktrees/unfinished": "known",
		// the root's rules protect these paths, so a workspace there would not record them
		"repo/node_modules/pkg":     "repo/node_modules/pkg",
		"repo/private/notes/deep":   "repo/private/notes/deep",
		"repo/cache/x":              "repo/cache/x",
		"repo/node_modules/own/src": "repo/node_modules/own",
		"known/node_modules/pkg":    "known/node_modules/pkg",
	} {
		got, err := workspace.Root(ctx(t), known, mkdir(dir), limits)
		if err != nil || got != filepath.Join(base, want) {
			t.Errorf("the root of %s is %s, %v; want %s", dir, got, err, want)
		}
	}
	// a store in the work tree prevents it from being the root
	got, err := workspace.Root(ctx(t), known, mkdir("holder/in"), workspace.Limits{Store: filepath.Join(base, "holder", "store")})
	if err != nil || got != filepath.Join(base, "holder", "in") {
		t.Errorf("beside the store the root is %s, %v", got, err)
	}
	for _, dir := range []string{"home", "home/store", "."} {
		if got, err := workspace.Root(ctx(t), known, filepath.Join(base, dir), limits); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("the root of %s is %s, %v", dir, got, err)
		}
	}
	// a known workspace that has become the home directory does not count
	home, err := workspace.Register(ctx(t), known, mkdir("later"), workspace.Limits{})
	must(t, err)
	got, err = workspace.Root(ctx(t), known, mkdir("later/in"), workspace.Limits{Home: home.Path})
	if err != nil || got != filepath.Join(home.Path, "in") {
		t.Errorf("in a home directory that is known the root is %s, %v", got, err)
	}
	if len(known) != 2 || known[first.ID].Path != first.Path {
		t.Errorf("looking for roots changed what is known: %+v", known)
	}
}

// TestARepositoryOfAnotherUserIsNoRoot checks that a user with write access to a
// directory above the session's cannot widen the recorded tree.
func TestARepositoryOfAnotherUserIsNoRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away; the owners are all one here")
		return
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	in := filepath.Join(base, "in")
	must(t, os.Mkdir(in, 0o755))
	must(t, os.Mkdir(filepath.Join(base, ".git"), 0o755))
	must(t, os.WriteFile(filepath.Join(base, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
	must(t, os.Lchown(filepath.Join(base, ".git"), 12345, 12345))
	got, err := workspace.Root(ctx(t), make(register), in, workspace.Limits{})
	if err != nil || got != in {
		t.Errorf("the root is %s, %v", got, err)
	}
	// one user's whole repository is one root, for root, too
	must(t, os.Lchown(base, 12345, 12345))
	must(t, os.Lchown(in, 12345, 12345))
	got, err = workspace.Root(ctx(t), make(register), in, workspace.Limits{})
	if err != nil || got != base {
		t.Errorf("the root in another's repository is %s, %v", got, err)
	}
}
