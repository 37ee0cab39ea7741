package cli

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// experimentsDir has the experiments that users can run at once.
const experimentsDir = "../../experiments"

// TestExperiments interrupts each experiment once and lets it go on. Its ticks are fewer, unless SEGNO_SOAK is
// set: then it must end within two minutes.
func TestExperiments(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(experimentsDir, "*.toml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("the experiments are %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			x, e := newShortExperiment(t, file)
			began := time.Now()
			x.interrupt()
			out := x.mustRun()
			if d := time.Since(began); d > 2*time.Minute {
				t.Errorf("it took %s", d)
			}
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

// newShortExperiment copies the experiments, and shortens one of them.
func newShortExperiment(t *testing.T, file string) (*experiment, *generation.Experiment) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ticks := regexp.MustCompile(`(?m)^ticks = [0-9]+`)
	if !soak.IsWhole() {
		text = ticks.ReplaceAll(text, []byte("ticks = 3"))
	}
	x := newExperiment(t, "", "900")
	dir := filepath.Join(x.dir, "experiments")
	if err := os.CopyFS(dir, os.DirFS(experimentsDir)); err != nil {
		t.Fatal(err)
	}
	x.file = filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(x.file, text, 0o600); err != nil {
		t.Fatal(err)
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
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitCancelled {
		x.t.Fatalf("%v\n%s", err, log.String())
	}
}
