package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/world/httpworld"
)

// TestWorldsPage follows docs/worlds.md in a directory beside a checkout. The files in it must be correct. With
// SEGNO_SOAK, the test also runs its commands.
func TestWorldsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/worlds.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(root, filepath.Join(dir, "segno")); err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		language, code := block[1], block[2]
		switch {
		case language == "toml" && strings.Contains(code, "[[agents]]"):
			file := filepath.Join(dir, "hive.toml")
			if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := generation.ReadExperiment(file); err != nil {
				t.Error(err)
			}
		case language == "toml":
			file := filepath.Join(dir, httpworld.ConfigFile)
			if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := httpworld.ReadConfig(dir); err != nil {
				t.Error(err)
			}
		case language == "" && strings.HasPrefix(code, "cp ") && soak.IsWhole():
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", code)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=", "GOFLAGS=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", code, err, out)
			}
		}
	}
}
