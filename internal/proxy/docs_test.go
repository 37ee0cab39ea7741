package proxy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/executable"
)

// TestSettingsOfTheDocumentation runs the block of docs/acp.md for Zed in a shell, in which the commands for installing
// do nothing. It then starts the agent as Zed does with the printed settings.
func TestSettingsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	doc, err := os.ReadFile("../../docs/acp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(doc), "\n```sh\n")
	block, _, ended := strings.Cut(after, "\n```\n")
	if !found || !ended {
		t.Fatal("docs/acp.md has no block for a shell")
	}
	bin := filepath.Join(r.home, "go", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := func(name, text string) {
		if err := executable.Write(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	quote := func(args ...string) string { return "'" + strings.Join(args, "' '") + "'" }
	script("go", "test \"$1\" != env || echo "+quote(filepath.Dir(bin)))
	script("npm", "")
	script("segno", "exec "+quote(os.Args[0], "segno")+" \"$@\"")
	script("claude-agent-acp", "exec "+quote(r.agentCommand()...))
	shell := exec.Command("sh", "-c", block)
	shell.Dir, shell.Env = r.project, []string{"HOME=" + r.home, "PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var settings struct {
		Servers map[string]struct {
			Type, Command string
			Args          []string
			Env           map[string]string
		} `json:"agent_servers"`
	}
	if err := json.Unmarshal(out, &settings); err != nil || len(settings.Servers) != 1 {
		t.Fatalf("the settings are %s, %v", out, err)
	}
	for _, server := range settings.Servers {
		if server.Type != "custom" || !filepath.IsAbs(server.Command) {
			t.Errorf("the settings are %s", out)
		}
		cmd := exec.Command(server.Command, server.Args...)
		cmd.Dir, cmd.Env = r.project, []string{"HOME=" + r.home, "XDG_DATA_HOME=" + filepath.Join(r.home, "data")}
		for name, value := range server.Env {
			cmd.Env = append(cmd.Env, fmt.Sprint(name, "=", value))
		}
		c := r.started(cmd, acptest.ClientOptions{}, "")
		if _, err := c.Initialize(r.ctx, nil); err != nil {
			t.Fatal(err)
		}
		s := r.open(c, "new", "")
		r.say(c, s, "alpha")
		if said := r.order(c, s, "/checkpoints"); !strings.Contains(said, "alpha") {
			t.Errorf("said %q", said)
		}
	}
}
