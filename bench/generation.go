package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// generationTicks is the number of measured pauses of an agent for each size of its workspace.
const generationTicks = 12

// generationRun is segno generations run with agents that need no model.
type generationRun struct{ bin, dir string }

// generationEvent is a line of its output.
type generationEvent struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	Path string    `json:"path"`
}

// run runs an experiment in a new directory and returns its events. every is CHECKPOINT_EVERY.
func (g generationRun) run(ctx context.Context, agents, ticks int, template, every string) (events []generationEvent, err error) {
	dir, err := os.MkdirTemp(g.dir, "experiment-")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("world = \"company\"\ngenerations = 1\nticks = %d\ntemplate = %q\n", ticks, template)
	for i := range agents {
		text += fmt.Sprintf("[[agents]]\nname = \"Agent%d\"\n", i)
	}
	file := filepath.Join(dir, "bench.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, g.bin, "generations", "run", file, "--json", "--keep", fmt.Sprint(generationTicks+1))
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + filepath.Join(dir, "data"), "CHECKPOINT_EVERY=" + every}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("segno generations run: %w: %s", err, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		var e generationEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// pauses returns the times between the end of each tick and the next turn.
func pauses(events []generationEvent) (s sample) {
	var ended time.Time
	for _, e := range events {
		switch {
		case e.Kind == "tick":
			ended = e.Time
		case e.Kind == "turn" && !ended.IsZero():
			s, ended = append(s, e.Time.Sub(ended)), time.Time{}
		}
	}
	return s
}

// archiveSizes returns the median size of the archives between the first and the last one, and the size of the last one.
func archiveSizes(events []generationEvent) (between, last int64, err error) {
	var sizes []int64
	for _, e := range events {
		if e.Kind == "checkpoint" {
			info, err := os.Stat(e.Path)
			if err != nil {
				return 0, 0, err
			}
			sizes = append(sizes, info.Size())
		}
	}
	if len(sizes) < 3 {
		return 0, 0, fmt.Errorf("the run has %d archives", len(sizes))
	}
	middle := slices.Sorted(slices.Values(sizes[1 : len(sizes)-1]))
	return middle[len(middle)/2], sizes[len(sizes)-1], nil
}

// generations measures the time for which a checkpoint pauses the agents, the size of a checkpoint, and the
// cost of checkpoints for a whole run.
func generations(ctx context.Context, b *bench) error {
	dir, err := b.scratch("generation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g := generationRun{dir: dir}
	if g.bin, err = b.build(ctx, true); err != nil {
		return err
	}
	events, err := g.run(ctx, 1, generationTicks, "", "0")
	if err != nil {
		return err
	}
	bare := pauses(events)
	b.add("", "generation: from a tick to the next turn, without checkpoints", bare)
	for _, w := range []struct {
		name        string
		files, size int
	}{{"an empty workspace", 0, 0}, {"10 MB in 10 files", 10, 1e6}, {"100 MB in 100 files", 100, 1e6}, {"10,000 files of 1 KB", 10_000, 1000}} {
		if err := b.pausesOf(ctx, g, w.name, w.files, w.size); err != nil {
			return err
		}
	}
	return b.generationCost(ctx, g)
}

// pausesOf measures the checkpoints of one agent with a workspace of some files.
func (b *bench) pausesOf(ctx context.Context, g generationRun, name string, files, size int) error {
	template := filepath.Join(g.dir, "template")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range files {
		path := filepath.Join(template, fmt.Sprint("dir", i%100), fmt.Sprint("file", i))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err := cmp.Or(err, os.WriteFile(path, prose(r, size), 0o600)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(template, 0o755); err != nil {
		return err
	}
	events, err := g.run(ctx, 1, generationTicks+1, template, "0.000001")
	if err != nil {
		return err
	}
	between, last, err := archiveSizes(events)
	if err != nil {
		return err
	}
	all := pauses(events)
	pause := is(milliseconds(all[1:].median()), "ms")
	if files*size == 100e6 {
		pause = atMost(60, milliseconds(all[1:].median()), "ms")
	}
	b.add("", "generation: the same with a checkpoint, "+name, all[1:], pause, is(milliseconds(all[0]), "ms for the first checkpoint"),
		is(float64(between)/1e6, "MB in an archive"), is(float64(last)/1e6, "MB in the last archive"))
	return os.RemoveAll(template)
}

// generationCost compares whole runs with and without checkpoints.
func (b *bench) generationCost(ctx context.Context, g generationRun) error {
	const ticks = 100
	whole := func(every string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := g.run(ctx, 3, ticks, "", every)
			return err
		}
	}
	times, err := contest{rounds: b.rounds, warm: true, entrants: []entrant{{name: "0", run: whole("0")}, {name: "1", run: whole("1")}}}.hold(ctx)
	if err != nil {
		return err
	}
	b.add("", fmt.Sprintf("generation: %d ticks of 3 agents, CHECKPOINT_EVERY=0", ticks), times["0"])
	b.add("", "generation: the same, CHECKPOINT_EVERY=1", times["1"], is(times["1"].over(times["0"]), "× without checkpoints"))
	return nil
}
