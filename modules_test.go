package segno_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestModules vets and tests the modules inside this one, so that 'go test ./...'
// tests everything. They are modules of their own to keep what they need, SDKs and
// drivers of servers, out of programs that do without.
func TestModules(t *testing.T) {
	packages(t) // reads all sources: a result of this test is stale once one of them changes
	for _, dir := range modules(t) {
		t.Run(filepath.ToSlash(dir), func(t *testing.T) {
			limit := 9 * time.Minute
			if os.Getenv("SEGNO_SOAK") != "" {
				limit = 3 * time.Hour
			}
			test := []string{"test", "-timeout", limit.String(), "./..."}
			if testing.Short() {
				test = slices.Insert(test, 1, "-short")
			}
			for _, args := range [][]string{{"vet", "./..."}, test} {
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
		})
	}
}

// modules are the directories of the modules that go.work lists, but for the root.
func modules(t *testing.T) (dirs []string) {
	t.Helper()
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\./(\S+)$`).FindAllStringSubmatch(string(work), -1) {
		dirs = append(dirs, m[1])
	}
	if len(dirs) == 0 {
		t.Fatal("go.work lists no modules")
	}
	return dirs
}

// heavy is what a program must not get with the root and a store.
var heavy = regexp.MustCompile(`anthropic|openai|gocloud\.dev|redis|pgx|aws|azure|cloud\.google|grpc`)

// TestTheLibraryIsLight makes a program that imports the root, an agent and a store,
// and looks at what modules come along.
func TestTheLibraryIsLight(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	// What it requires is what the root does: a program gets no less and no more.
	text := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(mod), "module example.com/program")
	text = regexp.MustCompile(`(?m)^tool .*$`).ReplaceAllString(text, "") +
		"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + root + "\n"
	for name, data := range map[string]string{"go.mod": text, "go.sum": string(sum), "main.go": `package main

import (
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/sqlite"
)

func main() {
	store, err := sqlite.Open("agent.db")
	fmt.Println(segno.NewSaver(store), agent.New(agent.Config{Store: store}), err)
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"build", "-o", os.DevNull, "."}, {"list", "-m", "all"}, {"list", "-deps", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if found := heavy.FindString(string(out)); found != "" {
			t.Errorf("go %s names %s:\n%s", strings.Join(args, " "), found, out)
		}
	}
}
