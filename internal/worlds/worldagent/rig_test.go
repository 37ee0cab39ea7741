package worldagent_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/worlds/worldagent"
	"github.com/dalsegno/segno/world/company"
	"github.com/dalsegno/segno/world/httpworld"
)

func TestMain(m *testing.M) {
	if code, ran := acptest.Main(context.Background(), os.Args[1:], acptest.Standard()); ran {
		os.Exit(code)
	}
	memdir.Use()
	os.Exit(m.Run())
}

const (
	conversation = "0c5ab1f2-6a6e-4f0e-9d0a-1b2c3d4e5f60"
	ticket       = "the ticket of Ada"
)

// rig is a world with one agent.
type rig struct {
	*testing.T
	world segno.World
	worldagent.Config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	w := company.New(7)
	if err := w.Join(t.Context(), ticket, "Ada"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httpworld.NewHandler(w, "token"))
	t.Cleanup(server.Close)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, world: w, Config: worldagent.Config{Dir: filepath.Join(dir, "workspace"), Conversation: filepath.Join(dir, "conversation"),
		ID: conversation, World: server.URL, Ticket: ticket}}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) read(name string) string {
	r.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

func (r *rig) advance() {
	r.Helper()
	if err := r.world.Advance(r.Context(), r.world.Info().Tick); err != nil {
		r.Fatal(err)
	}
}
