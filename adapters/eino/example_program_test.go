package segnoeino_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is the example, built outside of the checkout as a user's program is, with a store.
type program struct {
	t        *testing.T
	exe, dir string
}

func newProgram(t *testing.T) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a program in another directory")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	src := t.TempDir()
	copyFile(t, "example/main.go", filepath.Join(src, "main.go"))
	copyFile(t, "go.sum", filepath.Join(src, "go.sum"))
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	const self = "github.com/dalsegno/segno/adapters/eino"
	text := strings.ReplaceAll(string(mod), "=> ../..", "=> "+root)
	text = strings.Replace(text, "module "+self, "module example.com/program", 1) +
		"\nrequire " + self + " v0.0.0\nreplace " + self + " => " + filepath.Join(root, "adapters/eino") + "\n"
	if err := os.WriteFile(filepath.Join(src, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, exe: filepath.Join(src, "program"), dir: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.exe, ".")
	build.Dir, build.Env = src, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the program with flags, the store, and args.
func (p *program) run(flags []string, args ...string) (out string, err error) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.exe, append(append(flags, p.dir), args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// mustRun is run of a program that succeeds and prints want.
func (p *program) mustRun(want string, flags []string, args ...string) {
	p.t.Helper()
	if out, err := p.run(flags, args...); err != nil || !strings.Contains(out, want) {
		p.t.Fatalf("%v %v: %v\n%s\nwanted %q", flags, args, err, out, want)
	}
}

// effects returns the effects of the nodes so far.
func (p *program) effects() string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "effects"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

func (p *program) wantEffects(want string) {
	p.t.Helper()
	if got := p.effects(); got != want {
		p.t.Fatalf("the effects are %q, want %q", got, want)
	}
}

// A process is killed in the middle of a graph of five nodes, twice. The nodes that ended do not run again, and a
// node that had begun runs only with the user's consent. An approval waits over restarts of the process. A fork
// begins after the second node.
func TestExampleSurvivesKills(t *testing.T) {
	p := newProgram(t)
	if out, err := p.run([]string{"-crash", "reserve"}, "order", "two books"); err == nil {
		t.Fatalf("the program was not killed:\n%s", out)
	}
	p.wantEffects("check")
	out, err := p.run(nil, "order", "two books")
	if err == nil || !strings.Contains(out, "reserve began") {
		t.Fatalf("%v\n%s", err, out)
	}
	p.wantEffects("check")
	const asked = "waits: pay for two books, check, reserve?"
	p.mustRun(asked, []string{"-repeat", "reserve"}, "order")
	p.wantEffects("check reserve")
	p.mustRun(asked, nil, "order") // a restart without an answer asks again
	p.mustRun("", []string{"-fork", "copy"}, "order")

	if out, err := p.run([]string{"-crash", "ship", "-answer", "yes"}, "order"); err == nil {
		t.Fatalf("the program was not killed:\n%s", out)
	}
	p.mustRun("two books, check, reserve, approved with yes, pay, ship", []string{"-repeat", "ship"}, "order")
	p.wantEffects("check reserve pay ship")

	p.mustRun(asked, nil, "copy")
	p.mustRun("approved with no, pay, ship", []string{"-answer", "no"}, "copy")
	p.wantEffects("check reserve pay ship pay ship")

	log := p.segno("log", "--all", "order")
	t.Log(log)
	show := p.segno("show", "order")
	t.Log(show)
}

// segno runs the command on the program's store.
func (p *program) segno(args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "go", append([]string{"run", "github.com/dalsegno/segno/cmd/segno", "--store", p.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("segno %v: %v\n%s", args, err, out)
	}
	return string(out)
}
