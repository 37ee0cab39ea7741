package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
)

// TestGitFileIsRestoredAndNeverChanged verifies that the .git file of a submodule or worktree
// is restored if it is missing, and that an existing one never changes.
func TestGitFileIsRestoredAndNeverChanged(t *testing.T) {
	p := newFixture(t)
	p.write("sub/.git", "gitdir: ../.git/modules/sub\n")
	p.write("sub/f", "1")
	first := p.save()
	if e := p.entities(first)["sub/.git"]; e.Type != segno.EntityFile {
		t.Fatalf("the snapshot has %+v", e)
	}

	must(t, os.RemoveAll(p.path("sub")))
	conflicts, err := p.dir.Apply(ctx(t), p.diff(p.save(), first), first.Times)
	must(t, err)
	if len(conflicts) != 0 || p.read("sub/.git") != "gitdir: ../.git/modules/sub\n" {
		t.Errorf("conflicts %q, restored %q", conflicts, p.read("sub/.git"))
	}

	p.write("sub/.git", "gitdir: elsewhere\n")
	conflicts, err = p.dir.Apply(ctx(t), p.diff(p.save(), first), first.Times)
	must(t, err)
	if len(conflicts) != 1 || p.read("sub/.git") != "gitdir: elsewhere\n" {
		t.Errorf("changed: conflicts %q, then %q", conflicts, p.read("sub/.git"))
	}

	must(t, os.Remove(p.path("sub/.git")))
	without := p.save()
	p.write("sub/.git", "gitdir: new\n")
	conflicts, err = p.dir.Apply(ctx(t), p.diff(p.save(), without), without.Times)
	must(t, err)
	if len(conflicts) != 1 || p.read("sub/.git") != "gitdir: new\n" {
		t.Errorf("created: conflicts %q, then %q", conflicts, p.read("sub/.git"))
	}
}

// TestAProtectedDirectoryBecomesAFile makes the path of a protected directory a file at the
// next scan. A .git file must be saved, and a fork must copy a file that a rule protects.
func TestAProtectedDirectoryBecomesAFile(t *testing.T) {
	p := newFixture(t)
	p.write(".segnoignore", "secret\n")
	p.write("sub/.git/HEAD", "ref: refs/heads/main\n")
	p.write("secret/f", "1")
	p.save()
	must(t, os.RemoveAll(p.path("sub/.git")))
	must(t, os.RemoveAll(p.path("secret")))
	p.write("sub/.git", "gitdir: ../elsewhere\n")
	p.write("secret", "a file")
	snap := p.save()
	if e := p.entities(snap)["sub/.git"]; e.Type != segno.EntityFile {
		t.Errorf("the snapshot has %+v", e)
	}
	must(t, os.Remove(p.path("sub/.git")))
	to := filepath.Join(t.TempDir(), "fork")
	_, err := p.dir.Fork(ctx(t), p.save(), to)
	must(t, err)
	if data, err := os.ReadFile(filepath.Join(to, "secret")); err != nil || string(data) != "a file" {
		t.Errorf("the fork has %q, %v", data, err)
	}
}
