package generation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
)

// realtimeWorld is a world that moves its time without segno.
type realtimeWorld struct{ generation.World }

func (w realtimeWorld) Info() segno.WorldInfo {
	info := w.World.Info()
	info.Tick = 0
	return info
}

// realtime returns the configuration of an experiment in a realtime world.
func (r *rig) realtime(generations int, duration, idle time.Duration) generation.Config {
	r.Helper()
	file := filepath.Join(r.dir, "village.toml")
	text := fmt.Sprintf("world = \"company\"\ngenerations = %d\nduration = %q\nidle = %q\n[[agents]]\nname = \"Ada\"\n", generations, duration, idle)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	e, err := generation.ReadExperiment(file)
	if err != nil {
		r.Fatal(err)
	}
	c := r.config(generations, 1)
	c.Experiment, c.Keep = e, 1000 // on a busy machine, a run has archives of many seconds
	c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
		w, err := startLocal(ctx, s)
		return realtimeWorld{w}, err
	}
	return c
}

// load returns a file of the workspace in an archive.
func (r *rig) load(name string, elements ...string) string {
	r.Helper()
	reader, err := archive.Open(r.path(elements...))
	if err != nil {
		r.Fatal(err)
	}
	defer reader.Close()
	to := filepath.Join(r.TempDir(), "loaded")
	into := archive.Into{Dir: to, TrustSession: true}
	if delta := reader.Delta(); delta != nil { // a run that takes seconds has some
		if into.Base, err = archive.Open(filepath.Join(filepath.Dir(r.path(elements...)), delta.Name)); err != nil {
			r.Fatal(err)
		}
		defer into.Base.Close()
	}
	if _, err := reader.Load(r.Context(), into); err != nil {
		r.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(to, "agents/Ada/workspace", name))
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

// TestRealTime runs an agent for some time, stops it in between, and continues. The earlier time counts.
func TestRealTime(t *testing.T) {
	r := newRig(t)
	c := r.realtime(1, time.Hour, time.Millisecond)
	c.Every = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventCheckpoint && len(r.find(generation.EventCheckpoint)) == 2 {
			cancel()
		}
	}
	if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("the error is %v", err)
	}
	stopped, err := generation.ReadLog(c.Out, "village")
	if err != nil || len(stopped.Checkpoints) == 0 {
		t.Fatal(stopped, err)
	}
	before := stopped.Checkpoints[len(stopped.Checkpoints)-1].ElapsedSeconds
	r.on = nil
	c.Experiment = r.realtime(1, time.Duration((before+0.2)*float64(time.Second)), time.Millisecond).Experiment
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := generation.ReadLog(c.Out, "village")
	if err != nil || len(l.Rows) != 2 || !strings.HasPrefix(l.Rows[1].TemplateIn, "checkpoint:") {
		t.Fatalf("the chain is %+v, %v", l.Rows, err)
	}
	known := map[string]bool{"": true}
	for _, cp := range l.Checkpoints { // several checkpoints within one second share one archive
		if known[cp.Digest] = true; !known[cp.Parent] {
			t.Errorf("%s continues %s, which is not there", cp.Path, cp.Parent)
		}
		if cp.Run == "village-g001" && cp.ElapsedSeconds < before {
			t.Errorf("%s is of %.2f s, before %.2f s", cp.Path, cp.ElapsedSeconds, before)
		}
		if cp.Consistency == archive.Crash {
			t.Errorf("%s is not consistent", cp.Path)
		}
	}
	if turns := len(r.find(generation.EventTurn)); turns == 0 || len(r.kind.turns) < turns {
		t.Errorf("%d turns are reported, and %d began", turns, len(r.kind.turns))
	}
}

// TestRealTimeCut makes checkpoints while an agent writes two files alternately. It is frozen meanwhile, so the files
// in each checkpoint belong together.
func TestRealTimeCut(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(int) string {
		return "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i >> a; echo $i >> b; done"
	}
	c := r.realtime(1, 700*time.Millisecond, time.Millisecond)
	c.Every, c.Grace = 100*time.Millisecond, time.Millisecond
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range r.archives("village-g001") {
		a, b := r.load("a", "village-g001/checkpoints", name), r.load("b", "village-g001/checkpoints", name)
		if more := strings.Count(a, "\n") - strings.Count(b, "\n"); more != 0 && more != 1 {
			t.Errorf("%s: a has %d lines more than b", name, more)
		}
	}
	l, err := generation.ReadLog(c.Out, "village") // an archive has the name of its second, and a later one replaces it
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(l.Checkpoints, func(cp generation.SavedCheckpoint) bool { return cp.Consistency == archive.Barrier }) {
		t.Errorf("no agent was frozen in %+v", l.Checkpoints)
	}
	a, err := os.ReadFile(r.path("village-g001/agents/Ada/workspace/a"))
	if names := r.archives("village-g001"); err != nil || string(a) != r.load("a", "village-g001/checkpoints", names[len(names)-1]) {
		t.Errorf("the files changed after the last checkpoint: %v", err)
	}
}

// TestTicksInRealTime refuses an experiment with ticks, because a realtime world has none.
func TestTicksInRealTime(t *testing.T) {
	r := newRig(t)
	c := r.realtime(1, time.Second, time.Second)
	c.Experiment = r.config(1, 1).Experiment
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindInvalid || !strings.Contains(segno.HintOf(err), "duration") {
		t.Errorf("the error is %v", err)
	}
}

// dyingWorld is a realtime world that dies.
type dyingWorld struct {
	realtimeWorld
	died func() bool
}

func (w dyingWorld) Snapshot(ctx context.Context) (segno.WorldSnapshot, error) {
	if w.died() {
		return segno.WorldSnapshot{}, segno.Errorf(segno.KindIO, "save world", "company", "it died")
	}
	return w.World.Snapshot(ctx)
}

// TestRealTimeWorldDies ends the world's process. The generation fails although no agent notices and no checkpoint is
// made.
func TestRealTimeWorldDies(t *testing.T) {
	r := newRig(t)
	c := r.realtime(1, time.Hour, time.Millisecond)
	c.Every, c.Retries = 0, 0
	start := c.Start
	c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
		w, err := start(ctx, s)
		return dyingWorld{realtimeWorld{w}, func() bool { return len(r.find(generation.EventTurnEnd)) > 1 }}, err
	}
	if err := generation.New(c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "it died") {
		t.Errorf("the error is %v", err)
	}
}

// TestAgentCommand refuses kinds of agents that lack a command, and those that have a command they do not use.
func TestAgentCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.toml")
	for agent, valid := range map[string]bool{
		`kind = "acp"`: false, `kind = "acp"` + "\n" + `command = ["agent"]`: true, `kind = "acp"` + "\ncommand = []": false, `command = ["agent"]`: false,
	} {
		text := "world = \"company\"\ngenerations = 1\nticks = 1\n[[agents]]\nname = \"Ada\"\n" + agent + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := generation.ReadExperiment(file); (err == nil) != valid {
			t.Errorf("%q: %v", agent, err)
		}
	}
}
