package cli_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/worlds/trend"
	"github.com/dalsegno/segno/world"
)

// chainRun is one run of an example. The test checks its chain.
type chainRun struct {
	*experiment
	*generation.Experiment
	began    time.Time
	left     map[string]string // the memories of agents when the test read a row, by the path in the row
	outcomes []string          // the columns of the world
}

// fixedColumns are the columns of all chains according to docs/generations.md.
const fixedColumns = `generation agent_index agent_name run_id status template_in workspace_out start_utc end_utc duration_seconds
	ticks sim_seconds checkpoints tokens_in tokens_out reproducible why_not_reproducible`

const keepAll = "1000" // checkpoints

const memoryFile = "EPISODIC_MEMORY.jsonl"

// TestChainsOfExperiments runs each example three times. The third run is killed once, and goes back to a checkpoint
// twice. The test compares every path and every number of its chain with the files on the disk. Unless SEGNO_SOAK is set,
// runs are shorter, there is no second run, and it draws one of the examples.
func TestChainsOfExperiments(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(experimentsDir, "*.toml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("the experiments are %q, %v", files, err)
	}
	runs := 3
	if !soak.IsWhole() {
		runs = 2
		drawn := soak.Seed(t) % uint64(len(files))
		files = files[drawn : drawn+1]
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var first []string
			for i := range runs {
				x := newChainRun(t, file)
				if i < runs-1 {
					x.mustRun("--keep", keepAll)
				} else {
					x.killAndGoBack()
				}
				x.check()
				if got := x.results(); first == nil {
					first = got
				} else if diff := gocmp.Diff(first, got); diff != "" {
					t.Errorf("run %d is not as the first one:\n%s", i+1, diff)
				}
			}
		})
	}
}

// newChainRun makes an installation with an example that makes a checkpoint after each tick.
func newChainRun(t *testing.T, file string) *chainRun {
	t.Helper()
	x, e := newShortExperiment(t, file)
	x.env = append(x.env, "CHECKPOINT_EVERY=0.001")
	return &chainRun{experiment: x, Experiment: e, began: time.Now(), left: map[string]string{}}
}

// killAndGoBack kills the runner after its first checkpoint and runs the same command again. Then it goes back to a
// checkpoint of the first generation, and to one of the last generation.
func (x *chainRun) killAndGoBack() {
	x.t.Helper()
	x.killAtCheckpoint()
	x.mustRun("--keep", keepAll)
	last := x.Generations
	want := []string{x.attempt(1, 1) + " failed", x.attempt(1, 2) + " completed"}
	for g := 2; g <= last; g++ {
		want = append(want, x.attempt(g, 1)+" completed")
	}
	x.checkStatuses(want)

	x.goBack(1)
	for i := 1; i < len(want); i++ {
		want[i] = strings.Replace(want[i], "completed", "superseded", 1)
	}
	want = append(want, x.attempt(1, 3)+" completed")
	for g := 2; g <= last; g++ {
		want = append(want, x.attempt(g, 2)+" completed")
	}
	x.checkStatuses(want)

	x.goBack(last)
	want[len(want)-1] = x.attempt(last, 2) + " superseded"
	x.checkStatuses(append(want, x.attempt(last, 3)+" completed"))
}

func (x *chainRun) attempt(g, n int) string { return fmt.Sprintf("%s-g%03d-a%d", x.Name, g, n) }

// goBack checks the chain, and runs the experiment from the oldest checkpoint of the run of a generation.
func (x *chainRun) goBack(g int) {
	x.t.Helper()
	x.check()
	archives, err := filepath.Glob(x.below(fmt.Sprintf("%s-g%03d/checkpoints/*.ckpt", x.Name, g)))
	if err != nil || len(archives) == 0 {
		x.t.Fatalf("generation %d has no checkpoint: %v", g, err)
	}
	x.mustRun("--keep", keepAll, "--resume-from", archives[0])
	for path, memory := range x.left { // rows that the test read earlier must still be correct
		if now := x.memory(path); now != memory {
			x.t.Errorf("%s had the memory\n%s\nand has\n%s", path, memory, now)
		}
	}
}

// killAtCheckpoint runs the experiment and kills the runner when it has made a checkpoint.
func (x *chainRun) killAtCheckpoint() {
	x.t.Helper()
	cmd := x.command("generations", "run", x.file, "--json", "--keep", keepAll)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), `"kind":"checkpoint"`) {
			if err := cmd.Process.Kill(); err != nil {
				x.t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		x.t.Fatal("the runner ended before it was killed")
	}
}

// table parses generation_chain.csv into a map for each row, as any program could.
func (x *chainRun) table() (rows []map[string]string) {
	x.t.Helper()
	f, err := os.Open(filepath.Join(x.dir, "runs", x.Name, "generation_chain.csv"))
	if err != nil {
		x.t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// checkStatuses compares the statuses of the attempts, in the order of the rows.
func (x *chainRun) checkStatuses(want []string) {
	x.t.Helper()
	var got []string
	for _, row := range x.table() {
		if line := row["run_id"] + " " + row["status"]; len(got) == 0 || got[len(got)-1] != line {
			got = append(got, line)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		x.t.Errorf("the attempts:\n%s", diff)
	}
}

func (x *chainRun) check() {
	x.t.Helper()
	table := x.table()
	if len(table)%len(x.Agents) != 0 {
		x.t.Fatalf("%d rows of %d agents", len(table), len(x.Agents))
	}
	var ended time.Time // end of the attempt before
	dirs := map[string]bool{}
	x.outcomes = x.outcomes[:0]
	for name := range table[0] {
		if !slices.Contains(strings.Fields(fixedColumns), name) {
			x.outcomes = append(x.outcomes, name)
		}
	}
	slices.Sort(x.outcomes)
	if len(table[0]) != len(x.outcomes)+len(strings.Fields(fixedColumns)) {
		x.t.Errorf("the columns are %v", table[0])
	}
	for i, row := range table {
		agent := x.Agents[i%len(x.Agents)].Name
		where := row["run_id"] + " " + agent
		if row["agent_index"] != strconv.Itoa(i%len(x.Agents)) || row["agent_name"] != agent || !strings.HasPrefix(row["run_id"], fmt.Sprintf("%s-g%03s-a", x.Name, row["generation"])) {
			x.t.Errorf("row %d is of another agent: %q", i, row)
		}
		dir, err := filepath.EvalSymlinks(x.below(row["workspace_out"]))
		if err != nil || dirs[dir] || filepath.Base(filepath.Dir(dir)) != agent {
			x.t.Errorf("%s: workspace_out leads to %s, %v", where, dir, err)
		}
		dirs[dir] = true
		x.checkMemory(where, row)
		start, end := x.checkTimes(where, row)
		if i%len(x.Agents) == 0 {
			if start.Before(ended) {
				x.t.Errorf("%s began before the attempt before had ended", where)
			}
			ended = end
		}
		x.checkWorld(where, row, filepath.Join(dir, "../../.."))
		if row["reproducible"] != "yes" || row["why_not_reproducible"] != "" || row["tokens_in"]+row["tokens_out"] != "" {
			x.t.Errorf("%s: %q", where, row)
		}
	}
	x.checkPlot(table)
}

// below returns a path in the directory of the runs.
func (x *chainRun) below(path string) string { return filepath.Join(x.dir, "runs", path) }

// memory returns the notes of an agent, one line for each turn of the agent and of its predecessors.
func (x *chainRun) memory(workspace string) string {
	data, err := os.ReadFile(filepath.Join(x.below(workspace), memoryFile))
	if err != nil && !os.IsNotExist(err) {
		x.t.Error(err)
	}
	return string(data)
}

// checkMemory checks that the agent began with the memory of the template, and had a turn in each tick.
func (x *chainRun) checkMemory(where string, row map[string]string) {
	x.t.Helper()
	now, before := x.memory(row["workspace_out"]), ""
	x.left[row["workspace_out"]] = now
	turns := x.number(where, row, "ticks")
	if path, is := strings.CutPrefix(row["template_in"], "checkpoint:"); is {
		before = string(x.content(x.archive(x.below(path)), "agents/"+row["agent_name"]+"/workspace/"+memoryFile))
		turns -= float64(ticksOf(path))
	} else if row["template_in"] != "" {
		before = x.memory(row["template_in"])
	}
	added := strings.Count(now, "\n") - strings.Count(before, "\n")
	if !strings.HasPrefix(now, before) || row["status"] == "completed" && added != int(turns) || float64(added) < turns {
		x.t.Errorf("%s: %d turns, want %g; it began with\n%s\nand left\n%s", where, added, turns, before, now)
	}
}

func (x *chainRun) number(where string, row map[string]string, column string) float64 {
	x.t.Helper()
	n, err := strconv.ParseFloat(row[column], 64)
	if err != nil {
		x.t.Errorf("%s: %s is %q", where, column, row[column])
	}
	return n
}

// checkTimes checks the times of an attempt.
func (x *chainRun) checkTimes(where string, row map[string]string) (start, end time.Time) {
	x.t.Helper()
	start, errStart := time.Parse(time.RFC3339, row["start_utc"])
	end, errEnd := time.Parse(time.RFC3339, row["end_utc"])
	if errStart != nil || errEnd != nil || start.Before(x.began.Truncate(time.Millisecond)) || end.Before(start) || end.After(time.Now()) {
		x.t.Errorf("%s: from %s to %s, %v %v", where, row["start_utc"], row["end_utc"], errStart, errEnd)
	}
	if want := fmt.Sprintf("%.3f", end.Sub(start).Seconds()); row["duration_seconds"] != want {
		x.t.Errorf("%s: it lasted %s s, want %s", where, row["duration_seconds"], want)
	}
	return start, end
}

// checkWorld compares the numbers of an attempt with the last archive in its directory.
func (x *chainRun) checkWorld(where string, row map[string]string, dir string) {
	x.t.Helper()
	archives, err := filepath.Glob(filepath.Join(dir, "checkpoints/*.ckpt"))
	if err != nil || strconv.Itoa(len(archives)) != row["checkpoints"] || len(archives) == 0 {
		x.t.Fatalf("%s: %d archives, and %s checkpoints in the row: %v", where, len(archives), row["checkpoints"], err)
	}
	newest := archives[len(archives)-1]
	document := x.content(x.archive(newest), "world.snapshot")
	header, err := world.ReadHeader(document)
	if err != nil {
		x.t.Fatal(err)
	}
	ticks := int(x.number(where, row, "ticks"))
	if ticksOf(newest) != ticks {
		x.t.Errorf("%s: %d ticks, and the last archive is %s", where, ticks, newest)
	}
	if row["status"] != "failed" && ticks != x.Ticks || header.Time.String() != row["sim_seconds"] || header.Time == 0 {
		x.t.Errorf("%s: %d ticks of %d, and %s seconds of %s", where, ticks, x.Ticks, row["sim_seconds"], header.Time)
	}
	outcomes, err := world.ReadOutcomes(document)
	if err != nil || len(outcomes) < 2 {
		x.t.Errorf("%s: the outcomes are %v, %v", where, outcomes, err)
	}
	for name, value := range outcomes {
		if x.number(where, row, name) != value {
			x.t.Errorf("%s: %s is %s, and %g in the world", where, name, row[name], value)
		}
	}
	if story, err := os.ReadFile(filepath.Join(dir, "story.txt")); err != nil || len(story) == 0 {
		x.t.Errorf("%s: the story is %q, %v", where, story, err)
	}
}

// ticksOf returns the ticks in the name of an archive.
func ticksOf(archive string) int {
	_, text, _ := strings.Cut(filepath.Base(archive), "-t")
	n, _ := strconv.Atoi(strings.TrimSuffix(text, ".ckpt")) // 0 for any other name, so that the comparison fails
	return n
}

// content returns a file of an archive.
func (x *chainRun) content(r *archive.Reader, name string) []byte {
	x.t.Helper()
	var b bytes.Buffer
	if err := r.ReadFile(name, &b); err != nil {
		x.t.Fatal(err)
	}
	return b.Bytes()
}

func (x *chainRun) archive(path string) *archive.Reader {
	x.t.Helper()
	r, err := archive.Open(path)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { r.Close() })
	return r
}

// results returns the outcomes and the memories of the complete generations.
func (x *chainRun) results() (all []string) {
	x.t.Helper()
	for _, row := range x.table() {
		if row["status"] != "completed" {
			continue
		}
		line := row["generation"] + " " + row["agent_name"] + " " + row["ticks"] + " " + row["sim_seconds"]
		for _, name := range x.outcomes {
			line += " " + name + "=" + row[name]
		}
		all = append(all, line+"\n"+x.memory(row["workspace_out"]))
	}
	slices.Sort(all)
	return all
}

// checkPlot compares the plot and the comparison with the rows.
func (x *chainRun) checkPlot(table []map[string]string) {
	x.t.Helper()
	var plot trend.Plot
	x.json(&plot, "generations", "plot", x.Name, "--json")
	for _, panel := range plot.Panels {
		for _, point := range panel.Points {
			i := slices.IndexFunc(table, func(row map[string]string) bool { return row["run_id"] == point.Run })
			if i < 0 || strconv.FormatFloat(point.Value, 'g', -1, 64) != table[i][panel.Name] || string(point.Status) != table[i]["status"] {
				x.t.Errorf("the plot of %s has %+v", panel.Name, point)
			}
		}
		if len(panel.Points) != len(table)/len(x.Agents) {
			x.t.Errorf("%d attempts, and %d points of %s", len(table)/len(x.Agents), len(panel.Points), panel.Name)
		}
	}
	file := filepath.Join(x.dir, "plot.svg")
	if out, err := x.command("generations", "plot", x.Name, "--svg", file).CombinedOutput(); err != nil {
		x.t.Fatalf("%v\n%s", err, out)
	}
	svg, err := os.ReadFile(file)
	if marks := regexp.MustCompile(`-a[0-9]+ (completed|failed|superseded): `).FindAll(svg, -1); err != nil || len(marks) != len(plot.Panels)*len(table)/len(x.Agents) {
		x.t.Errorf("the SVG has %d marks, %v", len(marks), err)
	}
	var both []trend.Summary
	x.json(&both, "generations", "compare", x.Name, x.Name, "--json")
	if diff := gocmp.Diff(trend.Summarize(x.Name, x.chain(x.Name)).Outcomes, both[1].Outcomes, gocmp.Comparer(func(a, b trend.Outcome) bool {
		return a.Last == b.Last && a.Mean == b.Mean && a.Generations == b.Generations
	})); diff != "" || both[0].Generations == 0 {
		x.t.Errorf("compare: %s", diff)
	}
}

func (x *chainRun) json(v any, args ...string) {
	x.t.Helper()
	out, err := x.command(args...).Output()
	if err == nil {
		err = json.Unmarshal(out, v)
	}
	if err != nil {
		x.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}
