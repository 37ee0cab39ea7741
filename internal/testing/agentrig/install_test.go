package agentrig_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/executable"
)

// fakeNPM puts an npm before the real one in $PATH. It installs a file for the agent and
// counts its runs in the returned file.
func fakeNPM(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	runs := filepath.Join(dir, "runs")
	text := "#!/bin/sh\necho run >> '" + runs + "'\n" + script
	if err := executable.Write(filepath.Join(dir, "npm"), []byte(text)); err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestInstallOnce(t *testing.T) {
	runs := fakeNPM(t, `for d in linux-x64 linux-arm64 darwin-x64 darwin-arm64; do
mkdir -p node_modules/@anthropic-ai/claude-code-$d && touch node_modules/@anthropic-ai/claude-code-$d/claude
done`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if bin, err := agentrig.Install(t.Context(), agentrig.ClaudeNewest); err != nil {
				t.Error(err)
			} else if _, err := os.Stat(bin); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if log, err := os.ReadFile(runs); err != nil || string(log) != "run\n" {
		t.Errorf("npm ran: %q, %v", log, err)
	}
}

func TestInstallError(t *testing.T) {
	for name, script := range map[string]string{
		"npm fails":    "echo 'npm warn something' >&2; echo 'npm error code E404' >&2; echo 'npm error more' >&2; exit 1",
		"silent":       "exit 7",
		"no agent":     "exit 0",
		"many lines":   "printf 'a\\nb\\nc\\n'; exit 1",
		"killed in it": "kill -9 $$",
	} {
		t.Run(name, func(t *testing.T) {
			fakeNPM(t, script)
			_, err := agentrig.Install(t.Context(), agentrig.ClaudeNewest)
			if err == nil {
				t.Fatal("no error")
			}
			want := "@anthropic-ai/claude-code@" + string(agentrig.ClaudeNewest)
			if msg := err.Error(); strings.Contains(msg, "\n") || !strings.Contains(msg, want) {
				t.Errorf("%q is not one line naming %s", msg, want)
			}
			left, globErr := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "segno-test", "installing-*"))
			if globErr != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, globErr)
			}
		})
	}
}
