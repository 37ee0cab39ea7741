package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// testFirstRun follows a new user who has Claude Code and no Go, from the installer to the first undo, in a new home. It logs the
// commands and their times.
func (r *produced) testFirstRun(t *testing.T) {
	versions := agentrig.ClaudeVersions()
	bin, err := agentrig.Install(t.Context(), versions[len(versions)-1])
	if err != nil {
		t.Fatal(err)
	}
	modelURL, stop, err := fakemodel.New().Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	server := httptest.NewServer(http.FileServer(http.Dir(r.dist)))
	defer server.Close()
	rig, err := agentrig.New(t.TempDir(), bin, modelURL)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, "curl", "sha256sum", "bash", "node")
	if err := os.Symlink(bin, filepath.Join(m.bin, "claude")); err != nil {
		t.Fatal(err)
	}
	m.home = rig.Project // the directory of the commands
	rig.Vars["PATH"] = filepath.Join(rig.Home, ".local/bin") + string(os.PathListSeparator) + m.bin
	env := append(rig.Env(), "SEGNO_DOWNLOADS="+server.URL)
	secret := filepath.Join(rig.Project, ".env")
	if err := os.WriteFile(secret, []byte("PORT=8080\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	prompt := `clean up the working directory <<fake [{"tool":"Bash","input":{"command":"rm .env","description":"d"}},"Removed .env."]>>`
	commands := [][]string{
		{"sh", r.file("install.sh")},
		{"segno", "enable", "claude"},
		{"claude", "-p", "--dangerously-skip-permissions", prompt},
		{"segno", "undo", "-y"},
	}
	begun := time.Now()
	for _, words := range commands {
		name := words[0]
		if name == "segno" {
			name = filepath.Join(rig.Home, ".local/bin/segno")
		}
		start := time.Now()
		out, err := m.try(env, name, words[1:]...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
		}
		t.Logf("%6.2f s  %s %s", time.Since(start).Seconds(), words[0], filepath.Base(words[1]))
		if _, err := os.Stat(secret); name == "claude" && err == nil {
			t.Fatal("the turn did not delete .env")
		}
	}
	t.Logf("%6.2f s  %d commands to the first undo", time.Since(begun).Seconds(), len(commands))
	if got := read(t, secret); got != "PORT=8080\n" {
		t.Errorf("the undo left .env %q", got)
	}
}
