package web_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/demo"
	"github.com/dalsegno/segno/internal/web"
)

// TestTheDemoIsMadeOnceAndRemoved makes a demo in an empty store, and deletes its thread. The deletion keeps the directory of
// the demo as long as a fork works there.
func TestTheDemoIsMadeOnceAndRemoved(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	r := &moveRig{T: t, dir: t.TempDir(), now: time.Now(), token: web.NewToken()}
	r.project = filepath.Join(r.dir, "project")
	if err := os.Mkdir(r.project, 0o755); err != nil {
		t.Fatal(err)
	}
	r.openStore()
	make := func(ctx context.Context) (segno.ThreadID, error) { return demo.Make(ctx, r.store, os.Environ()) }
	r.serveConfig(web.Config{Store: r.store, Local: r.store, Kind: "sqlite", Demo: make})

	made := r.post("/demo", "", "{}")
	var item struct{ Thread segno.ThreadID }
	if r.decode(made, &item); made.status != http.StatusCreated || item.Thread == "" {
		t.Fatal(made.raw)
	}
	r.thread = item.Thread
	r.refused(r.post("/demo", "", "{}"), http.StatusConflict, "conflict", "the store has a thread already")
	left := func(what string, want int) {
		t.Helper()
		for _, pattern := range []string{filepath.Join(scratch, "segno-demo-*"), filepath.Join(r.dir, "store", "demo-agent", "projects", "*")} {
			if found, err := filepath.Glob(pattern); err != nil || len(found) != want {
				t.Errorf("%s: %s is %q, %v", what, pattern, found, err)
			}
		}
	}
	left("the demo", 1)

	fork := r.move(`"verb":"fork"`)
	if p := r.preview(`"verb":"delete"`); !strings.Contains(p.Summary[1], "the files in the directory stay") {
		t.Errorf("with a fork, the deletion is %q", p.Summary)
	}
	r.undo(fork)
	p := r.preview(`"verb":"delete"`)
	if !strings.Contains(p.Summary[1], "is removed; this cannot be undone") {
		t.Errorf("the deletion is %q", p.Summary)
	}
	if done := r.apply(p, ""); done.status != http.StatusOK {
		t.Fatal(done.raw)
	}
	left("after the deletion", 0)

	r.stop()
	r.serve() // without a demo
	r.refused(r.post("/demo", "", "{}"), http.StatusForbidden, "refused", "this server makes no demo")
}
