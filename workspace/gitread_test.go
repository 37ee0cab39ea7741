package workspace_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestGitRepository compares revisions, changed files, contents and notes with those that git reads, from loose objects and
// from a pack.
func TestGitRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("git makes the repository for a second")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("install the Debian package git, which makes the repository")
	}
	f := newFixture(t)
	run := func(args ...string) string { return git(t, f.root, args...) }
	run("init", "-q", "-b", "main")
	f.write("a", "1\n")
	f.write("gone", "x\n")
	run("add", "-A")
	run("commit", "-q", "-m", "first")
	run("checkout", "-q", "-b", "side/way")
	f.write("dir/b", "2\n")
	run("rm", "-q", "gone")
	run("add", "-A")
	run("commit", "-q", "-m", "second\n\nKey: in the text\n\nsegno-checkpoint: x\nOther: y\nSegno-Checkpoint:  z ")
	run("checkout", "-q", "main")
	run("commit", "-q", "--allow-empty", "-m", "third")
	run("merge", "-q", "--no-ff", "-m", "merged", "side/way")
	run("tag", "-a", "v1", "-m", "v1", "side/way")
	run("tag", "light", "main~1")
	// A tree of notes has directories once there are many notes.
	second := run("rev-parse", "side/way")
	note := run("hash-object", "-w", "a")
	inner := strings.TrimSpace(gitWith(t, f.root, "100644 blob "+note+"\t"+second[2:]+"\n", "mktree"))
	outer := strings.TrimSpace(gitWith(t, f.root, "040000 tree "+inner+"\t"+second[:2]+"\n", "mktree"))
	run("update-ref", "refs/notes/ai", run("commit-tree", "-m", "notes", outer))

	check := func() {
		t.Helper()
		r := workspace.OpenGit(f.root)
		defer r.Close()
		for _, rev := range []string{"HEAD", "main", "side/way", "heads/main", "refs/heads/main", "v1", "tags/v1", "light", "HEAD~", "HEAD^", "HEAD~2", "HEAD^2", "HEAD^2~1",
			"main^1^", "v1~0", "HEAD^0", second, second[:7], second[:4], "ORIG_HEAD"} {
			want := run("rev-parse", rev+"^{commit}")
			if c, err := r.Commit(rev); err != nil || c.ID != want {
				t.Errorf("%s is %s, want %s (%v)", rev, c.ID, want, err)
			}
		}
		for _, rev := range []string{"", "nosuch", "HEAD~9", "HEAD^3", "../HEAD", "refs/../HEAD", "HEAD@{1}", "ffff", "zz", "config", "main:a", "-h", "HEAD~99999999999999999999"} {
			if c, err := r.Commit(rev); segno.KindOf(err) != segno.KindNotFound {
				t.Errorf("%q is %s (%v)", rev, c.ID, err)
			}
		}
		c, err := r.Commit("v1")
		must(t, err)
		if got := c.Trailer("Segno-Checkpoint"); got != "z" {
			t.Errorf("the trailer is %q", got)
		}
		if got := c.Trailer("Key"); got != "" {
			t.Errorf("a line of the text is a trailer: %q", got)
		}
		changes, err := r.Changes(t.Context(), c)
		must(t, err)
		if len(changes) != 2 || changes[0].Path != "dir/b" || changes[0].From != "" || changes[1].Path != "gone" || changes[1].To != "" {
			t.Errorf("the changes are %+v", changes)
		}
		if data, err := r.Content(changes[0].To); err != nil || string(data) != "2\n" {
			t.Errorf("the content is %q (%v)", data, err)
		}
		if text, err := r.Note("refs/notes/ai", second); err != nil || string(text) != "1\n" {
			t.Errorf("the note is %q (%v)", text, err)
		}
		for _, of := range [][2]string{{"refs/notes/ai", run("rev-parse", "main")}, {"refs/notes/none", second}} {
			if text, err := r.Note(of[0], of[1]); err != nil || text != nil {
				t.Errorf("there is a note %q in %s (%v)", text, of[0], err)
			}
		}
	}
	check()
	run("gc", "-q", "--prune=now")
	run("pack-refs", "--all")
	check()
	if r := workspace.OpenGit(t.TempDir()); r != nil {
		t.Error("a directory without a repository has one")
	}
}

// gitWith runs a git command with an input.
func gitWith(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	must(t, err)
	return string(out)
}
