package segnoeino_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite"
)

// program is the example with a store.
type program struct {
	t        *testing.T
	exe, dir string
}

func newProgram(t *testing.T) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a program")
	}
	p := &program{t: t, exe: filepath.Join(t.TempDir(), "program"), dir: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.exe, "./example")
	if soak.IsWhole() {
		// go compiles segno again for another module, which takes a minute.
		build = exec.CommandContext(t.Context(), "go", "build", "-o", p.exe, ".")
		build.Dir, build.Env = copyExample(t), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// copyExample makes a module of the example outside of the checkout, as a user's is, and returns its directory.
func copyExample(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, "example/main.go", filepath.Join(dir, "main.go"))
	copyFile(t, "go.sum", filepath.Join(dir, "go.sum"))
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	const self = "github.com/dalsegno/segno/adapters/eino"
	text := strings.ReplaceAll(string(mod), "=> ../..", "=> "+root)
	text = strings.Replace(text, "module "+self, "module example.com/program", 1) +
		"\nrequire " + self + " v0.0.0\nreplace " + self + " => " + filepath.Join(root, "adapters/eino") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
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

	p.mustShow("order", "check", "reserve", "approve", "pay", "ship")
	p.mustShow("copy", "check", "reserve", "approve", "pay", "ship")
}

// mustShow checks the newest turn of a thread as all parts of segno read it: its prompt, its answer, and its calls
// that have a result, without those that were repeated.
func (p *program) mustShow(thread segno.ThreadID, want ...string) {
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
	last := line.Commits[len(line.Commits)-1].Checkpoint
	if last.Kind != segno.CheckpointTurn || last.Prompt != "two books" {
		p.t.Errorf("%s ends with %+v", thread, last)
	}
	turn := turns.Read(line.Commits, last)
	var calls []string
	for _, it := range turn.Items {
		if it.Call != nil && it.Call.Done && !slices.Contains(calls, it.Call.Tool) {
			calls = append(calls, it.Call.Tool)
		}
	}
	if answer := turn.Items[len(turn.Items)-1].Text; !slices.Equal(calls, want) || !strings.HasSuffix(answer, "pay, ship") {
		p.t.Errorf("%s shows the calls %v and the answer %q", thread, calls, answer)
	}
}
