// Package programrig builds and runs the example program of an adapter, in processes that can be killed.
package programrig

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite"
)

// Program is an example program with a store. Its arguments are flags, the directory of the store, and the rest. The effect of
// a step is a line in the file effects.
type Program struct {
	t        *testing.T
	exe, dir string
}

// Build builds the program in the directory example of the module in the current directory, or skips the test with -short.
// A whole run builds it in another module outside of the checkout, as a user does. go then compiles segno again,
// which takes a minute.
func Build(t *testing.T) *Program {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a program")
	}
	p := &Program{t: t, exe: filepath.Join(t.TempDir(), "program"), dir: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.exe, "./example")
	if soak.IsWhole() {
		build = exec.CommandContext(t.Context(), "go", "build", "-o", p.exe, ".")
		build.Dir, build.Env = copyExample(t), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// copyExample makes a module of the example and returns its directory.
func copyExample(t *testing.T) string {
	t.Helper()
	module, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	mod := regexp.MustCompile(`=> \.\S*`).ReplaceAllStringFunc(read("go.mod"), func(to string) string {
		return "=> " + filepath.Join(module, strings.TrimPrefix(to, "=> "))
	})
	first, rest, _ := strings.Cut(mod, "\n")
	self := strings.TrimPrefix(first, "module ")
	mod = "module example.com/program\n" + rest + "\nrequire " + self + " v0.0.0\nreplace " + self + " => " + module + "\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": read("example/main.go"), "go.sum": read("go.sum"), "go.mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Run runs the program.
func (p *Program) Run(flags []string, args ...string) (out string, err error) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.exe, append(append(flags, p.dir), args...)...)
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// MustRun runs the program, which succeeds and prints want.
func (p *Program) MustRun(want string, flags []string, args ...string) {
	p.t.Helper()
	if out, err := p.Run(flags, args...); err != nil || !strings.Contains(out, want) {
		p.t.Fatalf("%v %v: %v\n%s\nwanted %q", flags, args, err, out, want)
	}
}

// MustFail runs the program, which fails, or is killed, and prints want.
func (p *Program) MustFail(want string, flags []string, args ...string) {
	p.t.Helper()
	if out, err := p.Run(flags, args...); err == nil || !strings.Contains(out, want) {
		p.t.Fatalf("%v %v: %v\n%s\nwanted an error with %q", flags, args, err, out, want)
	}
}

// WantEffects checks the effects so far.
func (p *Program) WantEffects(want string) {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "effects"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(data)), " "); got != want {
		p.t.Fatalf("the effects are %q, want %q", got, want)
	}
}

// Line returns the line of a thread of the store.
func (p *Program) Line(thread segno.ThreadID) *segno.Line {
	p.t.Helper()
	store, err := sqlite.Open(p.t.Context(), filepath.Join(p.dir, "segno.db"), sqlite.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer store.Close()
	head, err := store.Head(p.t.Context(), thread)
	if err != nil {
		p.t.Fatal(err)
	}
	line, err := store.Load(p.t.Context(), head.Head, segno.Window{Entries: true})
	if err != nil {
		p.t.Fatal(err)
	}
	return line
}
