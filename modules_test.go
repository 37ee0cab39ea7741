package segno_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// heavy lists modules that a program must not get with the root and a store. The command may have database
// drivers, because it also opens stores on servers.
var (
	heavy         = regexp.MustCompile(heavyAnywhere.String() + `|redis|pgx|riverqueue`)
	heavyAnywhere = regexp.MustCompile(`anthropic|openai|gocloud\.dev|aws|azure|cloud\.google|grpc`)
)

// TestTheCommandIsLight checks which modules `go build ./cmd/segno` compiles, so that a user of hooks and of
// the proxy does not wait for client libraries of models or clouds.
func TestTheCommandIsLight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/segno").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if found := heavyAnywhere.FindString(string(out)); found != "" {
		t.Errorf("the command needs %s:\n%s", found, out)
	}
}

// TestTheLibraryIsLight makes a program that imports the root, an agent and a store, and checks which modules
// it gets. With -short it does not build the program.
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
	// The program requires only this module, as after 'go get'. It gets the versions that the root module requires.
	goLine := regexp.MustCompile(`(?m)^go .*$`).FindString(string(mod))
	text := "module example.com/program\n\n" + goLine + "\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n"
	for name, data := range map[string]string{"go.mod": text, "go.sum": string(sum), "main.go": `package main

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/sqlite"
)

func main() {
	store, err := sqlite.Open(context.Background(), "agent.db", sqlite.Options{})
	fmt.Println(saver.New(store), agent.New(agent.Config{Store: store}), err)
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commands := [][]string{{"list", "-m", "all"}, {"list", "-deps", "."}}
	if !testing.Short() {
		commands = append(commands, []string{"build", "-o", os.DevNull, "."}) // linking takes seconds
	}
	for _, args := range commands {
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

// TestTheHookIsLinkedWithoutC checks that segno-hook imports no package that go build links with C by default: such a program starts
// later, and the agent waits for each hook.
func TestTheHookIsLinkedWithoutC(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/segno-hook").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains([]string{"net", "os/user", "runtime/cgo"}, name) {
			t.Errorf("segno-hook imports %s", name)
		}
	}
}
