package tool_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

// outside is a directory beside the root, with a file that no tool may reach.
func outside(t *testing.T) (r *rig, dir, out string) {
	top := t.TempDir()
	dir, out = filepath.Join(top, "ws"), filepath.Join(top, "out")
	writeFile(t, filepath.Join(out, "secret"), "secret")
	writeFile(t, filepath.Join(top, "ws-x", "secret"), "secret")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return newRig(t, tool.Deep(dir, openRoot(t, dir))), dir, out
}

func TestPathsStayInTheDirectory(t *testing.T) {
	r, dir, out := outside(t)
	for name, target := range map[string]string{"up": "../out", "abs": out, "file": "../out/secret", "absfile": filepath.Join(out, "secret"), "new": "../out/new", "absnew": filepath.Join(out, "new")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"../out/secret", "a/../../out/secret", "/../out/secret", dir + "/../out/secret", "..", "../ws-x/secret",
		filepath.Join(out, "secret"), "up/secret", "abs/secret", "file", "absfile", "new", "absnew", "up/../../out/secret", "nul\x00", "up/sub/new"} {
		for _, call := range [][]any{{"read_file", "path", p}, {"write_file", "path", p, "content", "mine"}, {"edit_file", "path", p, "old", "secret", "new", "mine"},
			{"ls", "path", p}, {"glob", "path", p, "pattern", "**"}, {"glob", "pattern", p + "/**"}, {"grep", "path", p, "pattern", "secret"}} {
			res, _ := r.call(t.Context(), call[0].(string), arguments(t, call[1:]))
			if strings.Contains(res.Text, ":1:") || strings.Contains(res.Text, "1\tsecret") {
				t.Errorf("%v reads a secret: %s", call, res.Text)
			}
		}
	}
	if got := readFile(t, filepath.Join(out, "secret")); got != "secret" {
		t.Errorf("the secret is now %q", got)
	}
	if names, err := os.ReadDir(out); err != nil || len(names) != 1 {
		t.Errorf("outside are now %v, %v", names, err)
	}
	r.fails([]string{"../out/secret", "leaves the root"}, "read_file", "path", "../out/secret")
	r.fails([]string{"absnew", "symlink leaves the root"}, "write_file", "path", "absnew", "content", "x")
	r.fails([]string{"file: path escapes"}, "read_file", "path", "file")
}

func TestTheDirectorysOwnNameIsInside(t *testing.T) {
	r, dir, _ := outside(t)
	r.do("write_file", "path", dir+"/a/b", "content", "x")
	if got := readFile(t, filepath.Join(dir, "a", "b")); got != "x" {
		t.Errorf("the file has %q", got)
	}
	r.wants("     1\tx", "read_file", "path", dir+"//a/../a/b")
	r.wants("a/", "ls", "path", dir)
	r.wants("a/", "ls", "path", dir+"/")
	r.wants("a/b", "glob", "pattern", dir+"/*/b")
	r.wants("a/b:1:x", "grep", "path", filepath.Dir(dir)+"/./ws/a", "pattern", "x")
	r.do("write_file", "path", dir+"-x/secret", "content", "a sibling's name is any name")
	if got := readFile(t, filepath.Join(dir, dir+"-x", "secret")); got != "a sibling's name is any name" {
		t.Errorf("the file has %q", got)
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, tool.Files(tool.InDir(openRoot(t, link))))
	r.wants("     1\tx", "read_file", "path", link+"/a/b")
	r.wants("     1\tx", "read_file", "path", dir+"/a/b")
}

func TestARelativeRootKnowsItsName(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	r := newRig(t, tool.Files(tool.InDir(openRoot(t, "."))))
	r.do("write_file", "path", dir+"/x", "content", "x")
	if got := readFile(t, filepath.Join(dir, "x")); got != "x" {
		t.Errorf("the file has %q", got)
	}
}

func TestWritingGoesThroughLinksInside(t *testing.T) {
	r, dir := inDir(t)
	writeFile(t, filepath.Join(dir, "x/y/file"), "old")
	writeFile(t, filepath.Join(dir, "x/z"), "old")
	links := map[string]string{"to": "x/y/file", "d": "x/y", "x/y/up": "../z", "twice": "to", "loop": "loop", "dangling": "x/made"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.do("edit_file", "path", "twice", "old", "old", "new", "by twice")
	r.do("write_file", "path", "d/up", "content", "by up") // ".." of x/y, not of the root
	r.do("write_file", "path", "dangling", "content", "made")
	for name, want := range map[string]string{"x/y/file": "by twice", "x/z": "by up", "x/made": "made"} {
		if got := readFile(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	for name, target := range links {
		if got, err := os.Readlink(filepath.Join(dir, name)); err != nil || got != target {
			t.Errorf("the link %s is now %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "z")); err == nil {
		t.Error("the root has a z")
	}
	r.fails([]string{"loop"}, "write_file", "path", "loop", "content", "x")
	r.wants("dangling\nto\ntwice\nx/made\nx/y/file\nx/y/up\nx/z", "glob", "pattern", "**")
}

func TestWriteKeepsModeAndRemovesTempFile(t *testing.T) {
	r, dir := inDir(t)
	script := filepath.Join(dir, "run.sh")
	writeFile(t, script, "echo 1\n")
	if err := os.Chmod(script, 0o777); err != nil {
		t.Fatal(err)
	}
	r.do("edit_file", "path", "run.sh", "old", "1", "new", "2")
	r.do("write_file", "path", "run.sh", "content", "echo 3\n")
	if info, err := os.Stat(script); err != nil || info.Mode() != 0o777 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(script, 0o444); err != nil {
		t.Fatal(err)
	}
	r.fails([]string{"run.sh: the file is read-only"}, "write_file", "path", "run.sh", "content", "x")
	r.fails([]string{"run.sh: the file is read-only"}, "edit_file", "path", "run.sh", "old", "3", "new", "4")
	if got := readFile(t, script); got != "echo 3\n" {
		t.Errorf("the script is %q", got)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the directory has %v, %v", names, err)
	}
}

func TestAPipeIsNotWaitedFor(t *testing.T) {
	r, dir := inDir(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.fails([]string{"pipe: not a regular file but a pipe"}, "read_file", "path", "pipe")
	r.fails([]string{"pipe: not a regular file but a pipe"}, "write_file", "path", "pipe", "content", "x")
	r.fails([]string{"pipe: not a regular file but a pipe"}, "edit_file", "path", "pipe", "old", "a", "new", "b")
	r.wants("no matches", "grep", "pattern", "x")
}

func TestVersionControlIsNotSearched(t *testing.T) {
	r, dir := inDir(t)
	writeFile(t, filepath.Join(dir, ".git/config"), "needle")
	writeFile(t, filepath.Join(dir, "sub/.git"), "needle") // a file, as worktrees have
	r.wants("sub/.git", "glob", "pattern", "**")
	r.wants("sub/.git:1:needle", "grep", "pattern", "needle")
	r.wants(".git/config:1:needle", "grep", "pattern", "needle", "path", ".git")
}

func TestALinkAroundIsNotWalkedTwice(t *testing.T) {
	r, dir := inDir(t)
	writeFile(t, filepath.Join(dir, "a/f"), "needle")
	if err := os.Symlink("..", filepath.Join(dir, "a/up")); err != nil {
		t.Fatal(err)
	}
	r.wants("a/f:1:needle", "grep", "pattern", "needle")
	r.wants("f\t6\nup/", "ls", "path", "a")
}

func TestABigFileIsReadInPieces(t *testing.T) {
	r, dir := inDir(t)
	f, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 2000 {
		fmt.Fprintln(f, "line", i)
	}
	if err := f.Truncate(8 << 30); err != nil { // sparse
		t.Fatal(err)
	}
	r.wants("     3\tline 2\n(there is more: continue with offset 3)", "read_file", "path", "big", "offset", 2, "limit", 1)
	r.fails([]string{"big: the file has more than 32 MB"}, "edit_file", "path", "big", "old", "line 1\n", "new", "x")
}

func TestAnEditThatWasOvertakenIsRefused(t *testing.T) {
	dir := t.TempDir()
	files := tool.InDir(openRoot(t, dir))
	name := filepath.Join(dir, "f")
	writeFile(t, name, "mine")
	err := files.Edit(t.Context(), &agent.Values{}, "f", func(old []byte) ([]byte, error) {
		writeFile(t, name, "an editor's, longer")
		return append(old, " too"...), nil
	})
	if err == nil || !strings.Contains(err.Error(), "read it again") {
		t.Errorf("the edit ends with %v", err)
	}
	if got := readFile(t, name); got != "an editor's, longer" {
		t.Errorf("the file has %q", got)
	}
}

func TestEffects(t *testing.T) {
	effects := func(tools []agent.Tool) map[string]string {
		m := map[string]string{}
		for _, t := range tools {
			if t.OnLost != agent.LostRerun {
				m[t.Name] = cmp.Or(string(t.OnLost), "ask")
			}
		}
		return m
	}
	if got := effects(tool.Standard()); len(got) != 0 {
		t.Errorf("in the state: %v", got)
	}
	r, _ := inDir(t)
	if got, want := fmt.Sprint(effects(r.tools)), "map[edit_file:ask execute:ask write_file:retry]"; got != want {
		t.Errorf("in a directory: %s, want %s", got, want)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "/", "a/../b", "..", "a/../../b", "//a", "./a/", "a\x00b", "\xff", `..\a`, "/..", "...", "a/...", "~/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		name, err := tool.Clean(p)
		depth, out := 0, false
		for _, s := range strings.Split(p, "/") {
			switch s {
			case "", ".":
			case "..":
				depth--
				out = out || depth < 0
			default:
				depth++
			}
		}
		switch {
		case err == nil && (!fs.ValidPath(name) || out):
			t.Errorf("%q is cleaned to %q", p, name)
		case err != nil && !out && !strings.ContainsRune(p, 0) && strings.ToValidUTF8(p, "") == p:
			t.Errorf("%q is refused: %v", p, err)
		}
		if again, err2 := tool.Clean("/" + name); err == nil && (err2 != nil || again != name) {
			t.Errorf("%q is cleaned to %q and then to %q, %v", p, name, again, err2)
		}
	})
}

// TestVersionControlIsLeftAlone writes to files of version control in which settings would run
// commands, also through a link.
func TestVersionControlIsLeftAlone(t *testing.T) {
	r, dir := inDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "sub/.git/hooks"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/.git", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/.git/config"), []byte("[core]"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git/config", "sub/.git/hooks/pre-commit", "link/config", ".hg/hgrc", ".GIT/config", ".git"} {
		r.fails([]string{"version control"}, "write_file", "path", name, "content", "x")
	}
	r.fails([]string{"version control"}, "edit_file", "path", "link/config", "old", "core", "new", "x")
	r.do("write_file", "path", ".gitignore", "content", "x")
	if data, err := os.ReadFile(filepath.Join(dir, "sub/.git/config")); err != nil || string(data) != "[core]" {
		t.Errorf("%q, %v", data, err)
	}
}
