package cli_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/soak"
)

const hermitTOML = `
world = "company"
seed = 7
generations = 3
ticks = 8
[[agents]]
name = "Ada"
`

// TestPauseSurvivesKills kills pause as soon as it has asked the runner, and kills wake at one of several moments. The next
// pause and the next wake complete their work, and the experiment ends like one that was not interrupted.
func TestPauseSurvivesKills(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	straight := newExperiment(t, hermitTOML, "1000")
	straight.mustRun()
	want := straight.outcome()
	moments := map[string]string{
		"directory renamed": "runs/village-g001.paused-*",
		"run prepared":      "runs/village-g001/run.json",
		"turn made":         "runs/village-g001/agents/Ada/agent.log",
		"world started":     "runs/village-g001/world.log",
	}
	for _, name := range soak.Some(t, 1, slices.Sorted(maps.Keys(moments))...) {
		moment := moments[name]
		t.Run(name, func(t *testing.T) {
			x := newExperiment(t, hermitTOML, "1000")
			run := x.start("generations", "run", x.file)
			x.await("runs/village-g001/agents/Ada/workspace/EPISODIC_MEMORY.jsonl")
			pause := x.start("generations", "pause", "village")
			x.await("runs/village/pause.json")
			x.kill9(pause)
			out, err := x.command("generations", "pause", "village").CombinedOutput()
			if err != nil && !strings.Contains(string(out), "it is paused already") {
				t.Fatalf("%v\n%s", err, out)
			}
			_ = run.Wait() // the pause stopped it
			wake := x.start("generations", "wake", "village")
			x.await(moment)
			x.kill9(wake)
			out, err = x.command("generations", "wake", "village").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if diff := gocmp.Diff(want, x.outcome()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// start starts a command of segno.
func (x *experiment) start(args ...string) *exec.Cmd {
	x.t.Helper()
	cmd := x.command(args...)
	cmd.Stderr = &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	return cmd
}

// await waits until a file exists.
func (x *experiment) await(pattern string) {
	x.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-tick.C {
		found, err := filepath.Glob(filepath.Join(x.dir, pattern))
		if err != nil {
			x.t.Fatal(err)
		}
		if len(found) > 0 {
			return
		}
	}
	x.t.Fatalf("there is no %s", pattern)
}

// kill9 kills a process and waits for its end.
func (x *experiment) kill9(cmd *exec.Cmd) {
	x.t.Helper()
	if err := cmd.Process.Signal(os.Kill); err != nil {
		x.t.Log(err) // it has ended
	}
	_ = cmd.Wait() // it was killed
}
