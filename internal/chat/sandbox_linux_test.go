package chat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/testing/debian"
)

// TestAChatInASandbox runs a command of an agent that reads a file outside, with and without a sandbox.
func TestAChatInASandbox(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs bwrap, which is installed from the network")
	}
	bwrap, err := debian.Find(t.Context(), debian.Program{Package: "bubblewrap", Installed: []string{"bwrap"}, Inside: "usr/bin/bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	secret := filepath.Join(d.home, "secret")
	if err := os.WriteFile(secret, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, sandbox := range map[string]tool.Sandbox{"without": nil, "with": tool.Bubblewrap{Program: bwrap.File}} {
		dir := filepath.Join(d.home, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		c, err := chat.Open(t.Context(), chat.Config{Model: offline.New(), Store: d.store, Dir: dir, Session: name, SkipApproval: true, Sandbox: sandbox})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		results := ""
		for e, err := range c.Stream(t.Context(), agent.Input{Prompt: "run cat " + secret + "; echo written >file"}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == agent.EventToolResult {
				results += e.Result.Text
			}
		}
		if read := strings.Contains(results, "sesame"); read != (sandbox == nil) {
			t.Errorf("%s a sandbox, the command printed %q", name, results)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "file")); string(data) != "written\n" {
			t.Errorf("%s a sandbox, the command wrote %q, %v", name, data, err)
		}
	}
}
