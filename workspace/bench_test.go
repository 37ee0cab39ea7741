package workspace_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// goTree copies GOROOT, about 15,000 files, into a directory of its own.
func goTree(b *testing.B) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "tree")
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		b.Fatal(err)
	}
	return dir
}

func BenchmarkQuick(b *testing.B) {
	dir := goTree(b)
	m := newMemory()
	w, err := workspace.Open(workspace.Config{ID: "w", Root: dir, Objects: m, Index: filepath.Join(b.TempDir(), "index")})
	if err != nil {
		b.Fatal(err)
	}
	snap := func() segno.Snapshot {
		bt := m.Batch()
		s, err := w.Snapshot(context.Background(), bt)
		if err != nil {
			b.Fatal(err)
		}
		bt.Stage(context.Background())
		return s
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			os.Remove(filepath.Join(filepath.Dir(dir), "..", "002", "index"))
			b.Logf("%+v", snap())
		}
	})
	runtime.GC()
	b.Run("same", func(b *testing.B) {
		for b.Loop() {
			snap()
		}
	})
}
