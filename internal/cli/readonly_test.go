package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/store/sqlite"
)

// TestAReadOnlyCopyOfAStoreInUse copies a store while a process has it open, so that the newest
// commits are in SQLite's log. It reads the copy without write permission.
func TestAReadOnlyCopyOfAStoreInUse(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, store, copied := filepath.Join(dir, "project"), filepath.Join(dir, "store"), filepath.Join(dir, "copy")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = project, append(os.Environ(), "HOME="+filepath.Join(dir, "home"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return out
	}
	must("segno", "--store", store, "save", "-m", "first")
	open, err := sqlite.Open(t.Context(), filepath.Join(store, "segno.db"), sqlite.Options{Packs: filepath.Join(store, "packs")})
	if err != nil {
		t.Fatal(err)
	}
	must("segno", "--store", store, "save", "-m", "second")
	want := must("segno", "--store", store, "log", "--json")
	must("cp", "-a", store, copied)
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(copied, "segno.db-wal")); err != nil || fi.Size() == 0 {
		t.Fatalf("the copy has no log: %v", err)
	}
	must("chmod", "-R", "a-w", copied)
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() }) // else the directory cannot be removed
	if got := must("unprivileged", "segno", "--store", copied, "log", "--json"); got != want {
		t.Errorf("the copy's log is %s, want %s", got, want)
	}

	// the log cannot be read without the files beside it, and segno reports that
	must("chmod", "u+w", copied)
	must("rm", "-f", filepath.Join(copied, "segno.db-shm"))
	must("chmod", "a-w", copied)
	out, err := run("unprivileged", "segno", "--store", copied, "log", "--json")
	if err == nil || !strings.Contains(out, "copy it to a writable directory") {
		t.Errorf("without its index the copy says %v: %s", err, out)
	}
}
