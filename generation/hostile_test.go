package generation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
)

// TestClockSetBack fails three times while the clock is set back an hour each time. Each retry continues the run that
// failed last, and directories with other names are ignored.
func TestClockSetBack(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"village-g001.failed-zzz", "village-g001.failed-99999999", "village-g001.replaced-20991231T235959Z"} {
		if err := os.MkdirAll(r.path(name, "checkpoints"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(r.path("village-g001.failed-zzz", "run.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.kind.more = func(n int) string {
		if n == 2 || n == 4 || n == 6 {
			return "exit 1"
		}
		return "true"
	}
	back := time.Duration(0)
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventFailed && e.Error != "" {
			back += time.Hour
		}
	}
	c := r.config(1, 4)
	c.Retries, c.Now = 3, func() time.Time { return time.Now().Add(-back) }
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g001", 4)
	var begins []int
	for _, e := range r.find(generation.EventBegin) {
		begins = append(begins, e.Tick)
	}
	if !slices.Equal(begins, []int{0, 1, 2, 3}) {
		t.Errorf("the tries began at the ticks %v", begins)
	}
}

// TestTwelveDays stops a generation after a million seconds. The name of its newest checkpoint has one digit more than the name before.
// The runner keeps that checkpoint and continues the generation with it.
func TestTwelveDays(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	passed := time.Duration(0)
	r.on = func(e generation.Event) {
		switch {
		case e.Kind == generation.EventTick && e.Tick == 1:
			passed = 999_990 * time.Second
		case e.Kind == generation.EventTick && e.Tick == 2:
			passed = 1_000_020 * time.Second
			cancel()
		case e.Kind == generation.EventTick:
			passed = 12 * 24 * time.Hour
		}
	}
	c := r.realtime(1, 12*24*time.Hour, 0)
	c.Start, c.Keep, c.Now = startLocal, 1, func() time.Time { return time.Now().Add(passed) }
	if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("the error is %v", err)
	}
	passed = 0
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var begins []int
	for _, e := range r.find(generation.EventBegin) {
		begins = append(begins, e.Tick)
	}
	if !slices.Equal(begins, []int{0, 2}) {
		t.Errorf("the tries began at the ticks %v", begins)
	}
	r.checkNotes("village-g001", 3)
}

// TestChangedExperiment adds an agent to an experiment that was stopped, or moves the archives to another machine. The
// runner does not restart the generation unless the user asks for it.
func TestChangedExperiment(t *testing.T) {
	for name, change := range map[string]func(c *generation.Config){
		"another agent": func(c *generation.Config) {
			c.Experiment.Agents = append(c.Experiment.Agents, generation.AgentSpec{Name: "Bo", Kind: generation.KindOffline})
		},
		"another machine": func(c *generation.Config) { c.Ours = func(string) bool { return false } },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.kind.more = func(n int) string {
				if n == 3 {
					return "exit 1"
				}
				return "true"
			}
			c := r.config(1, 4)
			if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindIO {
				t.Fatal(err)
			}
			before := *c.Experiment
			changed := c
			change(&changed)
			for range 2 {
				if err := generation.New(changed).Run(t.Context()); segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
					t.Fatalf("the error is %v", err)
				}
			}
			*c.Experiment = before
			if err := generation.New(c).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.checkNotes("village-g001", 4)
			if len(r.kind.turns) != 5 {
				t.Errorf("%d turns, want 4 and one that failed", len(r.kind.turns))
			}
		})
	}
}

// TestAgentsChangeBetweenGenerations reorders, adds and removes agents. Each agent inherits its own files, and an agent
// that was not in the generation before begins with the template.
func TestAgentsChangeBetweenGenerations(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(int) string { return `pwd >> log` }
	c := r.config(1, 1)
	template := filepath.Join(r.dir, "template")
	if err := errors.Join(os.Mkdir(template, 0o755), os.WriteFile(filepath.Join(template, "log"), []byte("template\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.Experiment.Template, c.Experiment.Order = template, generation.OrderFixed
	for i, names := range [][]string{{"Ada", "Bo"}, {"Bo", "Cy", "Ada"}, {"Cy"}, {"Ada", "Cy"}} {
		c.Experiment.Generations, c.Experiment.Agents = i+1, nil
		for _, name := range names {
			c.Experiment.Agents = append(c.Experiment.Agents, generation.AgentSpec{Name: name, Kind: generation.KindOffline})
		}
		if err := generation.New(c).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for path, generations := range map[string][]int{
		"village-g002/agents/Ada": {1, 2}, "village-g002/agents/Bo": {1, 2}, "village-g002/agents/Cy": {2},
		"village-g003/agents/Cy": {2, 3}, "village-g004/agents/Cy": {2, 3, 4}, "village-g004/agents/Ada": {4},
	} {
		want := "template\n"
		for _, g := range generations {
			want += r.path(fmt.Sprintf("village-g%03d/agents", g), filepath.Base(path), "workspace") + "\n"
		}
		got, err := os.ReadFile(r.path(path, "workspace/log"))
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Error(path, err, diff)
		}
	}
}

// TestMovedRuns moves the directory of the runs after a failure. The next command continues in the new place, and the
// pointer names the checkpoint there.
func TestMovedRuns(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(n int) string {
		if n == 3 {
			return "exit 1"
		}
		return "true"
	}
	c := r.config(2, 4)
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindIO {
		t.Fatal(err)
	}
	c.Out = filepath.Join(r.dir, "elsewhere", "runs")
	err := os.Mkdir(filepath.Dir(c.Out), 0o700)
	if err == nil {
		err = os.Rename(r.path(), c.Out)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, p, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || !exists(filepath.Join(c.Out, "village", p.Checkpoint)) {
		t.Errorf("the pointer is %+v, %v", p, err)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile(filepath.Join(c.Out, "village-g002/agents/Ada/workspace/notes"))
	if err != nil || strings.Count(string(notes), "turn") != 8 {
		t.Errorf("the notes are %q, %v", notes, err)
	}
	if begin := r.find(generation.EventBegin)[1]; begin.Tick != 2 {
		t.Errorf("it went on at %+v", begin)
	}
}

// TestReplacedDirectories has an agent put symlinks to other files of the user in the place of its home and its workspace.
// Neither a checkpoint nor a resume follows them.
func TestReplacedDirectories(t *testing.T) {
	r := newRig(t)
	others := filepath.Join(r.dir, "others")
	for _, name := range []string{"private", ".git/HEAD", ".claude/.credentials.json"} {
		path := filepath.Join(others, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("private"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.kind.more = func(n int) string {
		switch n {
		case 1:
			return "echo x > ../home/x"
		case 3:
			return "rm -rf ../home ../workspace; ln -s " + others + " ../home; ln -s " + others + " ../workspace; exit 1"
		}
		return "true"
	}
	c := r.config(1, 4)
	c.Retries = 1
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g001", 4)
	for _, name := range []string{"workspace/.git", "workspace/private", "home/private", "home/.claude"} {
		if exists(r.path("village-g001/agents/Ada", name)) {
			t.Errorf("%s is in the run", name)
		}
	}
	if exists(filepath.Join(others, "x")) || !exists(filepath.Join(others, "private")) {
		t.Error("the run changed the files of the user")
	}
}

// TestRetriesAreShared fails once in each of two generations, with one retry for both.
func TestRetriesAreShared(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(n int) string {
		if n == 2 || n == 5 {
			return "exit 1"
		}
		return "true"
	}
	c := r.config(2, 2)
	c.Retries = 1
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindIO {
		t.Errorf("the error is %v", err)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g002", 4)
}
