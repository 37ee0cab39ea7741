package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/executable"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/worlds/trend"
)

// experimentsDir has the experiments that users can run without changes.
const experimentsDir = "../../experiments"

// TestExperiments interrupts each experiment once and continues it. Unless SEGNO_SOAK is set, it has fewer generations and
// ticks, and a run tries one experiment.
func TestExperiments(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(experimentsDir, "*.toml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("the experiments are %q, %v", files, err)
	}
	for _, file := range soak.Some(t, 1, files...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			x, e := newShortExperiment(t, file)
			x.interrupt()
			out := x.mustRun()
			if !strings.Contains(out, "begins with ") || !strings.Contains(out, "all generations are complete") {
				t.Errorf("the second command printed\n%s", out)
			}
			for _, a := range e.Agents {
				memory, err := os.ReadFile(filepath.Join(x.dir, "runs", fmt.Sprintf("%s-g%03d", e.Name, e.Generations), "agents", a.Name, "workspace/EPISODIC_MEMORY.jsonl"))
				if n := strings.Count(string(memory), "\n"); n != e.Generations*e.Ticks || err != nil {
					t.Errorf("%s remembers %d turns of %d, %v", a.Name, n, e.Generations*e.Ticks, err)
				}
			}
		})
	}
}

// TestFirstExperiment follows docs/generations.md: it runs the experiment, pauses and wakes it from another shell, and plots
// it. Each generation catches more than the one before. The picture there is the plot of the generations. Unless
// SEGNO_SOAK is set, there are only two generations, and the test does not compare the picture.
func TestFirstExperiment(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes half a minute
	}
	t.Parallel()
	run, pause := documentedBlock(t, "segno generations run"), documentedBlock(t, "segno generations pause")
	begin, rest, _ := strings.Cut(run, "\n")
	x := newExperiment(t, "", "900")
	copyExperiments(t, x)
	generations := 4
	if !soak.IsWhole() {
		generations = 2
		shorten(t, filepath.Join(x.dir, "experiments/commons.toml"), "generations", generations)
	}
	shell := func(commands string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands)
		cmd.Dir, cmd.Env = x.dir, x.env
		return cmd
	}
	first := shell("exec " + begin)
	stdout, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "generation 1, tick 2:") {
	}
	woken := make(chan error, 1)
	var second []byte
	go func() {
		var err error
		second, err = shell(pause).CombinedOutput()
		woken <- err
	}()
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Fatal(err)
	}
	if _ = first.Wait(); first.ProcessState.ExitCode() != cli.ExitCancelled { // Wait returns the exit code as an error
		t.Errorf("the first shell ended with %s", first.ProcessState)
	}
	if err := <-woken; err != nil || !strings.Contains(string(second), "all generations are complete") {
		t.Fatalf("%s: %v\n%s", pause, err, second)
	}
	if out, err := shell(rest).CombinedOutput(); err != nil || !strings.Contains(string(out), "caught\n") {
		t.Errorf("%s: %v\n%s", rest, err, out)
	}
	x.checkCatches(generations)
}

// TestTemplateWithNotes begins with a note from the experiment's template. A fisher follows the note in the first
// generation.
func TestTemplateWithNotes(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	x, _ := newShortExperiment(t, filepath.Join(experimentsDir, "commons.toml"))
	rules := filepath.Join(x.dir, "experiments/rules")
	text, err := os.ReadFile(x.file)
	if err == nil {
		err = os.Mkdir(rules, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(rules, "NOTES.md"), []byte("Take at most 4 fish at a time.\n"), 0o600)
	}
	if err == nil {
		text = regexp.MustCompile(`(?m)^(generations|ticks) = [0-9]+`).ReplaceAll(text, []byte("$1 = 1"))
		err = os.WriteFile(x.file, append([]byte("template = \"rules\"\n"), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := x.mustRun(); strings.Count(out, `{"do":"fish","amount":4}`) != 3 {
		t.Errorf("it printed\n%s", out)
	}
}

// documentedBlock returns the first commands in docs/generations.md that begin with a text.
func documentedBlock(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/generations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```\n"+begin)
	block, _, closed := strings.Cut(block, "\n```")
	if !found || !closed {
		t.Fatalf("docs/generations.md has no block that begins with %q", begin)
	}
	return begin + block
}

// checkCatches checks that each generation of commons caught more than the one before, and that the page's picture shows
// all four.
func (x *experiment) checkCatches(generations int) {
	x.t.Helper()
	rows, err := generation.ReadRows(filepath.Join(x.dir, "runs"), "commons")
	if err != nil {
		x.t.Fatal(err)
	}
	// A pause adds a second attempt of its generation. The picture is from a run without a pause.
	rows = slices.DeleteFunc(rows, func(r generation.Row) bool { return r.Status != generation.RowCompleted })
	caught := 0.0
	for i, r := range rows {
		if i%3 == 0 && !(r.Outcomes["caught"] > caught) {
			x.t.Errorf("generation %d caught %v, after %v", r.Generation, r.Outcomes["caught"], caught)
		}
		caught = r.Outcomes["caught"]
		rows[i].Run = fmt.Sprintf("commons-g%03d-a1", r.Generation)
	}
	if len(rows) != generations*3 {
		x.t.Errorf("%d rows", len(rows))
	}
	if generations < 4 {
		return
	}
	picture, err := os.ReadFile("../../docs/commons.svg")
	if err != nil || string(picture) != string(trend.NewPlot("commons", rows).SVG()) {
		x.t.Errorf("docs/commons.svg is not the plot of this experiment: %v; make it with 'make plot'", err)
	}
}

// newShortExperiment copies the experiments, and shortens one of them.
func newShortExperiment(t *testing.T, file string) (*experiment, *generation.Experiment) {
	t.Helper()
	x := newExperiment(t, "", "900")
	x.file = filepath.Join(copyExperiments(t, x), filepath.Base(file))
	if !soak.IsWhole() {
		shorten(t, x.file, "generations", 2)
		shorten(t, x.file, "ticks", 3)
	}
	e, err := generation.ReadExperiment(x.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Agents {
		if a.Kind != generation.KindOffline {
			t.Errorf("agent %s needs a model", a.Name)
		}
	}
	return x, e
}

// copyExperiments copies the experiments into the installation, and returns their directory.
func copyExperiments(t *testing.T, x *experiment) string {
	t.Helper()
	dir := filepath.Join(x.dir, "experiments")
	if err := os.CopyFS(dir, os.DirFS(experimentsDir)); err != nil {
		t.Fatal(err)
	}
	executable.NameInterpreter(t, filepath.Join(dir, "pond/world.toml"))
	return dir
}

// shorten sets a number in the file of an experiment.
func shorten(t *testing.T, file, key string, n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		text = regexp.MustCompile(`(?m)^`+key+` = [0-9]+`).ReplaceAll(text, fmt.Appendf(nil, "%s = %d", key, n))
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// interrupt runs the experiment and sends SIGINT after its first tick.
func (x *experiment) interrupt() {
	x.t.Helper()
	cmd := x.command("generations", "run", x.file, "--json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	lines, sent := bufio.NewScanner(stdout), false
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"kind":"tick"`) && !sent {
			sent = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				x.t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != cli.ExitCancelled {
		x.t.Fatalf("%v\n%s", err, log.String())
	}
}
