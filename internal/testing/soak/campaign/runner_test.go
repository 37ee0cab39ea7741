package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// module is the only package of a repository. A campaign runs its tests.
const module = `package example

import (
	"os"
	"testing"
)

func TestPasses(t *testing.T) { t.Logf("SEGNO_SEED=%s: 3 cases", os.Getenv("SEGNO_SEED")) }

func TestSkips(t *testing.T) { t.Skip("it skips") }

func TestFails(t *testing.T) {
	if _, err := os.Stat("mended"); err != nil {
		t.Error("it fails in part", os.Getenv("SEGNO_PART"))
	}
}

/* A text that is no test:

func TestPassesInAComment(t *testing.T) {}
*/

func TestWaits(t *testing.T) {
	if _, err := os.Stat("waits"); err == nil {
		os.WriteFile("began", nil, 0o600)
		select {}
	}
}
`

type fixture struct {
	*testing.T
	root string
	out  bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	f := &fixture{T: t, root: t.TempDir()}
	f.write("go.mod", "module example\n\ngo 1.26\n")
	f.write("example_test.go", module)
	f.write(".gitignore", "/build/\n/mended\n/waits\n/began\n")
	f.write("docs/soak.md", "")
	f.git("init", "-q")
	f.commit()
	return f
}

func (f *fixture) write(name, text string) {
	f.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) git(args ...string) {
	f.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	cmd.Dir = f.root
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (f *fixture) commit() {
	f.Helper()
	f.git("add", "-A")
	f.git("commit", "-q", "--allow-empty", "-m", "a change")
}

// run runs a campaign of some tests, and returns its state and its output.
func (f *fixture) run(ctx context.Context, tests string, o options) (*state, string) {
	f.Helper()
	out, err := output(f.Context(), f.root, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		f.Fatal(err)
	}
	f.out.Reset()
	c := campaign{"example", "tests", 2, disk, []suite{{run: regexp.MustCompile(tests), parts: 2}}}
	r := &runner{source: source{f.root, out}, all: []campaign{c}, options: o, dir: filepath.Join(f.root, "build", "soak"), states: filepath.Join(f.root, "docs", "soak"), out: &f.out}
	s, err := r.campaign(ctx, c)
	if err != nil {
		f.Fatalf("%v\n%s", err, f.out.String())
	}
	return s, f.out.String()
}

func (f *fixture) read(name string) string {
	f.Helper()
	data, err := os.ReadFile(filepath.Join(f.root, name))
	if err != nil {
		f.Fatal(err)
	}
	return string(data)
}

func TestFailuresAndSkipsAreFindings(t *testing.T) {
	if testing.Short() {
		return // it builds programs
	}
	f := newFixture(t)
	s, out := f.run(t.Context(), "Passes|Skips|Fails", options{seed: 42})
	if s.found() != 4 || len(s.Parts) != 6 {
		t.Fatalf("%d findings in %d parts\n%s", s.found(), len(s.Parts), out)
	}
	for _, want := range []string{"example 6/6", "failed, 6 of 6 parts, 2 tests, 6 cases, 4 found, seed 42", "--- SKIP: TestSkips", "--- FAIL: TestFails",
		"SEGNO_SOAK=1 SEGNO_SEED=42 SEGNO_PART=1/2 go test -count=1 -vet=off ./. '-run=^TestFails$'"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
	if kept := f.read("build/soak/" + s.Parts["..TestFails 2/2"].Output); !strings.Contains(kept, "it fails in part 1/2") {
		t.Errorf("the output of the part is %q", kept)
	}
	if row := f.read("docs/soak.md"); !strings.Contains(row, "| example | failed | 6 of 6 | 2 | 6 | 42 | 4 |") {
		t.Error(row)
	}
	f.write("mended", "")
	if s, _ = f.run(t.Context(), "Passes|Skips|Fails", options{}); s.failing() != 4 {
		t.Errorf("%d parts fail although none ran", s.failing())
	}
	if s, _ = f.run(t.Context(), "Passes|Skips|Fails", options{retry: true}); s.failing() != 2 || s.found() != 4 {
		t.Errorf("%d parts fail, %d are found", s.failing(), s.found())
	}
}

// TestTheEndOfAFuzzersTimeIsNoFailure reads outputs of fuzzers. Go 1.26 can end one with a failure when its time is over.
func TestTheEndOfAFuzzersTimeIsNoFailure(t *testing.T) {
	const began = "fuzz: elapsed: 5m1s, execs: 502557 (0/sec), new interesting: 9 (total: 12)\n"
	for output, want := range map[string]string{
		"--- FAIL: FuzzX (300.83s)\n    context deadline exceeded\n=== NAME  \nFAIL\n":                                "",
		"--- FAIL: FuzzX (3.2s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:3: context deadline exceeded\nFAIL\n": "--- FAIL: FuzzX (3.2s)",
		"--- FAIL: FuzzX (3.2s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n":          "--- FAIL: FuzzX (3.2s)",
		"--- FAIL: TestX (3.2s)\n    context deadline exceeded\nFAIL\n":                                               "--- FAIL: TestX (3.2s)",
		"--- FAIL: TestX (3.2s)\n--- FAIL: FuzzX (3.2s)\n    context deadline exceeded\nFAIL\n":                       "--- FAIL: TestX (3.2s)",
	} {
		file := filepath.Join(t.TempDir(), "output")
		if err := os.WriteFile(file, []byte(began+output), 0o600); err != nil {
			t.Fatal(err)
		}
		r, why, err := judge(file, errors.New("exit status 1"))
		if err != nil || why != want || r.OK != (want == "") || r.OK && (r.Tests != 1 || r.Cases != 502557) {
			t.Errorf("%q is judged %q, %+v, %v", output, why, r, err)
		}
	}
}

func TestAStoppedCampaignGoesOn(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it builds programs
	}
	f := newFixture(t)
	f.write("waits", "")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; t.Context().Err() == nil; <-tick.C {
			if _, err := os.Stat(filepath.Join(f.root, "began")); err == nil {
				stop()
				return
			}
		}
	}()
	s, out := f.run(ctx, "Passes|Waits", options{})
	if len(s.Parts) >= 4 || s.found() > 0 || !strings.Contains(out, "not finished") {
		t.Fatalf("%d parts\n%s", len(s.Parts), out)
	}
	if err := os.Remove(filepath.Join(f.root, "waits")); err != nil {
		t.Fatal(err)
	}
	before := len(s.Parts)
	again, out := f.run(t.Context(), "Passes|Waits", options{})
	if before == 0 { // no part had a result, so the second run drew a new seed
		s.Seed = again.Seed
	}
	if len(again.Parts) != 4 || again.Seed != s.Seed || strings.Count(out, " ok ") != 4-before || !strings.Contains(out, "passed, 4 of 4 parts") {
		t.Errorf("%d parts, seeds %d and %d\n%s", len(again.Parts), s.Seed, again.Seed, out)
	}
}

// TestAChangedProgramRunsAgain runs a campaign on several commits. A part runs again if the sources of its test have changed.
func TestAChangedProgramRunsAgain(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it builds programs
	}
	f := newFixture(t)
	first, _ := f.run(t.Context(), "Passes", options{})
	for _, file := range []string{"other/other_test.go", "other/testdata/input", "other/embedded"} {
		f.write(file, "package other\n") // the docs of the results changed, too
		f.commit()
		same, out := f.run(t.Context(), "Passes", options{})
		if same.Seed != first.Seed || strings.Contains(out, " ok ") {
			t.Errorf("the campaign ran again, although only %s changed\n%s", file, out)
		}
	}
	f.write("more_test.go", "package example\n")
	f.commit()
	kept, out := f.run(t.Context(), "Passes", options{keep: true})
	if len(kept.Commits) != 1 || strings.Contains(out, " ok ") {
		t.Errorf("the state has the commits %v\n%s", kept.Commits, out)
	}
	more, out := f.run(t.Context(), "Passes", options{})
	if len(more.Commits) != 1 || more.Commits[0] == first.Commits[0] || strings.Count(out, " ok ") != 2 || !strings.Contains(out, "runs 2 of its 2 parts again") {
		t.Errorf("the state has the commits %v\n%s", more.Commits, out)
	}
}

// TestWhatAProgramIs asks which changes of files make a campaign run the tests of a package again.
func TestWhatAProgramIs(t *testing.T) {
	if testing.Short() {
		return // it lists packages
	}
	f := newFixture(t)
	f.write("leaf/leaf.go", "package leaf\n\nimport _ \"embed\"\n\n//go:embed words/*.txt\nvar Words string\n")
	f.write("leaf/words/a.txt", "a")
	f.write("leaf/leaf_test.go", "package leaf\n")
	f.write("user/user_test.go", "package user\n\nimport \"testing\"\n\nimport _ \"example/leaf\"\n\nconst page = \"../docs/page.md\"\n\n"+
		"func TestPage(t *testing.T) { read() }\n\nfunc read() { _ = page }\n\nfunc TestOther(t *testing.T) { _, _ = \"../../evil\", &files{} }\n\n"+
		"type files struct{}\n\nfunc (f *files) Open() string { return \"../docs/opened.md\" }\n")
	f.write("docs/page.md", "")
	f.write("docs/opened.md", "")
	programs, err := allPrograms(t.Context(), f.root)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"go.sum":                "example leaf user.TestOther user.TestPage",
		"leaf/leaf.go":          "leaf user.TestOther user.TestPage",
		"leaf/removed.go":       "leaf user.TestOther user.TestPage",
		"leaf/words/b.txt":      "leaf user.TestOther user.TestPage",
		"leaf/leaf_test.go":     "leaf",
		"leaf/testdata/x/y":     "leaf",
		"leaf/words/deep/c.txt": "",
		"docs/page.md":          "user.TestPage",
		"docs/opened.md":        "user.TestOther",
		"docs/other.md":         "",
		"example_test.go":       "example",
		"evil":                  "example",
	} {
		var got []string
		for name, test := range map[string]result{"example": {Part: "..TestX"}, "leaf": {Part: "leaf.TestX"}, "user.TestPage": {Part: "user.TestPage 1/2"},
			"user.TestOther": {Part: "user.TestOther"}} {
			if p := programs[test.pkg()]; p != nil && p.isOf(file, test.test()) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s is of %v, want %s", file, got, want)
		}
	}
}
