package programrig

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// RunWith runs the short tests of the module in the current directory with a version of a framework. It runs nothing
// unless the run is whole, because go compiles the framework and segno again.
func RunWith(t *testing.T, framework, version string) {
	t.Helper()
	if !soak.IsWhole() {
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SEGNO_") })
	env = append(env, "GOWORK=off", "GOFLAGS=-buildvcs=false -mod=mod -modfile="+filepath.Join(dir, "go.mod"))
	for _, args := range [][]string{
		{"mod", "edit", "-require=" + framework + "@" + version, filepath.Join(dir, "go.mod")}, {"list", "-m", framework}, {"test", "-vet=off", "-count=1", "-short", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
		if args[0] == "list" && !strings.Contains(string(out), version) {
			t.Fatalf("go selects %s", out)
		}
	}
}
