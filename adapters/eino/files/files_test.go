package einofiles_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudwego/eino/adk/filesystem"
	"github.com/cloudwego/eino/compose"
	"github.com/dalsegno/segno"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	einofiles "github.com/dalsegno/segno/adapters/eino/files"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

// open returns the files of a new directory with its timeline.
func open(t *testing.T) (dir string, tl *timeline.Timeline, f *einofiles.Files) {
	t.Helper()
	dir, state := t.TempDir(), t.TempDir()
	store, err := sqlite.Open(t.Context(), filepath.Join(state, "segno.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if tl, err = agent.OpenTimeline(t.Context(), store, dir, state); err != nil {
		t.Fatal(err)
	}
	if f, err = einofiles.Open(tl); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return dir, tl, f
}

func wantFile(t *testing.T, dir, name, want string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if got := string(data); got != want || err != nil && want != "" {
		t.Fatalf("%s is %q (%v), want %q", name, got, err, want)
	}
}

// Outside of runs each call that changes files can be undone.
func TestEachCallIsUndone(t *testing.T) {
	dir, tl, f := open(t)
	ctx := t.Context()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(f.Write(ctx, &filesystem.WriteRequest{FilePath: "/notes/a.txt", Content: "one\n"}))
	do(f.Edit(ctx, &filesystem.EditRequest{FilePath: filepath.Join(dir, "notes/a.txt"), OldString: "one", NewString: "two"}))
	out, err := f.Execute(ctx, &filesystem.ExecuteRequest{Command: "rm notes/a.txt; echo gone; exit 3"})
	if err != nil || *out.ExitCode != 3 || out.Output != "gone\n" {
		t.Fatalf("%+v, %v", out, err)
	}
	wantFile(t, dir, "notes/a.txt", "")
	for _, want := range []string{"two\n", "one\n"} {
		_, err := tl.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Steps: true}, nil)
		do(err)
		wantFile(t, dir, "notes/a.txt", want)
	}
}

// The files of a run are saved with each step.
func TestEachStepIsUndone(t *testing.T) {
	dir, tl, f := open(t)
	c := segnoeino.New(tl.Store)
	c.Timeline = tl
	g := compose.NewChain[string, string]()
	for _, name := range []string{"a", "b", "c"} {
		g.AppendLambda(compose.InvokableLambda(func(ctx context.Context, in string) (string, error) {
			return in + name, f.Write(ctx, &filesystem.WriteRequest{FilePath: "file", Content: in + name})
		}), compose.WithNodeKey(name))
	}
	r, err := g.Compile(t.Context(), compose.WithCheckPointStore(c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x"); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir, "file", "xabc")
	for _, want := range []string{"xab", "xa"} {
		if err := c.Undo(t.Context(), "t", 1); err != nil {
			t.Fatal(err)
		}
		wantFile(t, dir, "file", want)
	}
	if out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "ignored"); err != nil || out != "xabc" {
		t.Fatalf("%q, %v", out, err)
	}
	wantFile(t, dir, "file", "xabc")
}

func TestNoPathLeadsOut(t *testing.T) {
	dir, _, f := open(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, name := range []string{filepath.Join(outside, "secret"), "../" + filepath.Base(outside) + "/secret", "link/secret"} {
		if out, err := f.Read(ctx, &filesystem.ReadRequest{FilePath: name}); err == nil {
			t.Errorf("%s reads %q", name, out.Content)
		}
	}
	if err := f.Write(ctx, &filesystem.WriteRequest{FilePath: "link/new", Content: "x"}); err == nil {
		t.Error("a symbolic link leads a write out of the directory")
	}
	found, err := f.GrepRaw(ctx, &filesystem.GrepRequest{Pattern: "secret"})
	if err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestListsAndSearches(t *testing.T) {
	dir, _, f := open(t)
	for name, text := range map[string]string{"a.go": "package a\nvar X = 1\n", "sub/b.go": "package b\n", "sub/c.txt": "var\n", ".git/d.go": "package d\n"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	infos, err := f.LsInfo(ctx, &filesystem.LsInfoRequest{Path: "/sub"})
	if err != nil || len(infos) != 2 || infos[0].Path != "b.go" || infos[1].Size != 4 {
		t.Errorf("%+v, %v", infos, err)
	}
	found, err := f.GrepRaw(ctx, &filesystem.GrepRequest{Pattern: "^var", FileType: "go", AfterLines: 1})
	if err != nil || len(found) != 2 || found[0].Path != "/a.go" || found[0].Line != 2 {
		t.Errorf("%+v, %v", found, err)
	}
	globbed, err := f.GlobInfo(ctx, &filesystem.GlobInfoRequest{Pattern: "**/*.go"})
	if err != nil || len(globbed) != 2 {
		t.Errorf("%+v, %v", globbed, err)
	}
	for _, g := range globbed {
		if g.Size == 0 || strings.Contains(g.Path, ".git") {
			t.Errorf("%+v", g)
		}
	}
}
