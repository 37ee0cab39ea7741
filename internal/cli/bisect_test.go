package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/testing/wings"
	"github.com/dalsegno/segno/internal/vfs"
)

// runWithFaults returns a function that runs the command in a directory, with a store beside it. If the faults are not nil, they
// apply to what segno writes.
func runWithFaults(t *testing.T, project string) func(faults *faultfs.Faults, args ...string) (out string, code int) {
	dir := filepath.Dir(project)
	return func(faults *faultfs.Faults, args ...string) (out string, code int) {
		var b bytes.Buffer
		env := map[string]string{"HOME": dir}
		code = cli.Main(t.Context(), cli.Env{Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b, Getenv: func(k string) string { return env[k] },
			Environ: os.Environ, Getwd: func() (string, error) { return project, nil }, Executable: os.Executable,
			Place: func(p *local.Place) {
				if faults != nil {
					p.FS = faults.Wrap(vfs.OS)
				}
			}}, wings.All(), append([]string{"--store", filepath.Join(dir, "store")}, args...))
		return b.String(), code
	}
}

// TestForksOfWhichOneFails fails the second of three forks. The command reports the first, and leaves nothing of the others.
func TestForksOfWhichOneFails(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	run := runWithFaults(t, project)
	if out, code := run(nil, "save"); code != 0 {
		t.Fatal(out)
	}
	one := faultfs.FailAt(-1)
	if out, code := run(one, "fork", "-n", "1", "--to", "../one"); code != 0 {
		t.Fatal(out)
	}
	const more = 6 // operations of the second fork
	out, code := run(faultfs.FailAt(len(one.Trace())+more), "fork", "-n", "3", "--to", "../three")
	if code != 9 || !strings.Contains(out, "into ../three-1 ") && !strings.Contains(out, "three-1 (") || !strings.Contains(out, "1 of 3 forks are made: ") {
		t.Errorf("%d: %s", code, out)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*three*")); err != nil || len(left) != 1 {
		t.Errorf("there are %v", left)
	}
}

// TestABisectThatIsKilledAtAnyWrite ends the file system of a bisect at each of its operations, as the end of the process does. The
// next one continues, finds the same checkpoint and leaves nothing.
func TestABisectThatIsKilledAtAnyWrite(t *testing.T) {
	if testing.Short() {
		return // it starts processes
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	run := runWithFaults(t, project)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := run(nil, "save", "-m", name); code != 0 {
			t.Fatal(out)
		}
	}
	bisect := []string{"bisect", "run", "-j", "2", "! test -e c"}
	all := faultfs.FailAt(-1)
	if out, code := run(all, bisect...); code != 0 || !strings.Contains(out, "+ c\n") {
		t.Fatalf("%d: %s", code, out)
	}
	tried := map[int]bool{}
	for _, seed := range soak.Seeds(t, 2, 2*len(all.Trace())) {
		n := int(seed) % len(all.Trace())
		if tried[n] {
			continue
		}
		tried[n] = true
		faults := faultfs.FailAt(n)
		faults.Forever = true
		if out, code := run(faults, bisect...); faults.Fired() && code == 0 && !strings.Contains(out, "+ c\n") {
			t.Errorf("operation %d: %s", n, out)
		}
		if out, code := run(nil, bisect...); code != 0 || !strings.Contains(out, "+ c\n") {
			t.Errorf("after operation %d: %d: %s", n, code, out)
		}
		left, err := filepath.Glob(filepath.Join(dir, "segno-scratch-*"))
		if err != nil || len(left) > 0 {
			t.Fatalf("operation %d (%s) left %v", n, all.Trace()[n], left)
		}
	}
}

// TestBisectOfRandomLines bisects random histories with the command: lines that were left and continued elsewhere, checkpoints
// that change nothing, and some that cannot be tested. The result is that of a linear search.
func TestBisectOfRandomLines(t *testing.T) {
	if testing.Short() {
		return // it starts processes
	}
	for _, seed := range soak.Seeds(t, 1, 200) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		project := filepath.Join(dir, "project")
		if err := os.Mkdir(project, 0o755); err != nil {
			t.Fatal(err)
		}
		run := runWithFaults(t, project)
		type state struct{ id, verdict string }
		var line []state
		save := func(verdict string) {
			if err := os.WriteFile(filepath.Join(project, "v"), fmt.Appendf(nil, "%s %d", verdict, r.Int()), 0o644); err != nil {
				t.Fatal(err)
			}
			out, code := run(nil, "save", "--json")
			var item struct{ ID string }
			if err := json.Unmarshal([]byte(out), &item); err != nil || code != 0 {
				t.Fatalf("%v: %s", err, out)
			}
			line = append(line, state{item.ID, verdict})
		}
		isBad := func() bool { return slices.ContainsFunc(line, func(s state) bool { return s.verdict == "bad" }) }
		save("good")
		for range 3 + r.IntN(20) {
			switch n := r.IntN(10); {
			case n == 0: // a checkpoint that changes nothing
				if out, code := run(nil, "save"); code != 0 {
					t.Fatal(out)
				}
			case n == 1:
				line = line[:1+r.IntN(len(line))]
				if out, code := run(nil, "restore", line[len(line)-1].id, "-y"); code != 0 {
					t.Fatal(out)
				}
			case n < 4:
				save("skip")
			case isBad() || n == 4:
				save("bad")
			default:
				save("good")
			}
		}
		save("bad")
		var want []string
		for _, s := range line {
			if s.verdict == "good" {
				want = nil
			} else {
				want = append(want, s.id)
			}
			if s.verdict == "bad" {
				break
			}
		}
		out, code := run(nil, "bisect", "run", "--json", "-j", fmt.Sprint(1+r.IntN(3)),
			"case $(cat v) in good*) exit 0 ;; bad*) exit 1 ;; esac; exit 125")
		var found struct{ Suspects []struct{ ID string } }
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, out)
		}
		var got []string
		for _, s := range found.Suspects {
			got = append(got, s.ID)
		}
		if wantCode := map[bool]int{true: 0, false: 4}[len(want) == 1]; code != wantCode || !slices.Equal(got, want) {
			t.Errorf("seed %d: code %d, found %v, want %v in %v", seed, code, got, want, line)
		}
	}
}
