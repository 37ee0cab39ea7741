package fleetcmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/debian"
)

// TestCommandsRunInTheSandboxOfTheFile runs the tool execute of an agents.toml as a worker makes it. The command cannot write
// outside the directory of its thread.
func TestCommandsRunInTheSandboxOfTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("bwrap is installed from the network")
	}
	bwrap, err := debian.Find(t.Context(), debian.Program{Package: "bubblewrap", Installed: []string{"bwrap"}, Inside: "usr/bin/bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(bwrap.File)+":"+os.Getenv("PATH"))
	file := &agentsFile{}
	if mistakes := file.decode("[[agents]]\nname = 'a'\nmodel = 'offline'\ntools = ['execute']\nworkspace = true\nsandbox = 'bubblewrap'\n"); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	b := &builder{file: file, getenv: os.Getenv}
	if _, err := b.own(t.Context()); err != nil {
		t.Fatal(err)
	}
	commands, err := file.Agents[0].commands()
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	dir := t.TempDir()
	args, err := json.Marshal(map[string]string{"command": "touch here; touch " + outside + " || echo refused"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := b.dirTools(commands, dir, nil)["execute"]()[0].Run(t.Context(), &agent.Invocation{Call: agent.Call{ID: "c", Name: "execute", Args: args}})
	if err != nil || !strings.Contains(result.Text, "refused") {
		t.Errorf("the command printed %q, %v", result.Text, err)
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		t.Errorf("a command wrote outside of its directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "here")); err != nil {
		t.Error(err)
	}
}
