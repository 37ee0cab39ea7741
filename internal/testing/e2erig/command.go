package e2erig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// commands are the packages of the programs that scenarios run.
var commands = []string{"github.com/dalsegno/segno/cmd/segno", "github.com/dalsegno/segno/cmd/segno-hook"}

// build builds segno and segno-hook into dir. It keeps them below build/ in the repository, because go links a program
// again for each package of scenarios unless it finds an output that is up to date.
func build(dir string) error {
	work, err := goOutput("env", "GOWORK")
	if err != nil {
		return err
	}
	root := filepath.Dir(strings.TrimSpace(work))
	if err := listSources(root, filepath.Join(dir, sourcesFile)); err != nil {
		return err
	}
	kept := filepath.Join(root, "build", "e2e")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	unlock, err := debian.Lock(kept + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := goOutput(append([]string{"build", "-o", kept + string(filepath.Separator)}, commands...)...); err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(kept))
}

// sourcesFile is a list beside the commands, of the files from which go builds them.
const sourcesFile = "sources"

func listSources(root, file string) error {
	const sources = "{{if and .Module .Module.Main}}{{$dir := .Dir}}{{$dir}}{{range .GoFiles}}\n{{$dir}}/{{.}}{{end}}{{range .EmbedFiles}}\n{{$dir}}/{{.}}{{end}}\n{{end}}"
	list, err := goOutput(append([]string{"list", "-deps", "-f", sources}, commands...)...)
	if err != nil {
		return err
	}
	for _, name := range []string{"go.work", "go.mod", "cmd/segno/go.mod"} {
		list += filepath.Join(root, name) + "\n"
	}
	return os.WriteFile(file, []byte(list), 0o600)
}

// Command returns the path of segno, and calls stat for each file from which it was built. go test records these calls during
// a test, so a changed command makes the cached results of scenarios stale. The packages of scenarios do not import the
// command instead, because go would link it into each of them, also for a run with -short.
func Command(t testing.TB) string {
	t.Helper()
	segno, err := exec.LookPath("segno")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(filepath.Dir(segno), sourcesFile))
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(list)) {
		if _, err := os.Stat(strings.TrimSuffix(name, "\n")); err != nil {
			t.Fatal(err)
		}
	}
	return segno
}

// goOutput runs go and returns its output. The error contains what it wrote.
func goOutput(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", args[0], err, out, cmd.Stderr)
	}
	return string(out), nil
}
