package generation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/world"
)

// rows returns the rows of generation_chain.csv.
func (r *rig) rows() []generation.Row {
	r.Helper()
	l, err := generation.ReadLog(r.path(), "village")
	if err != nil {
		r.Fatal(err)
	}
	return l.Rows
}

// checkChain checks that each attempt has one id, one row and its own files, and that the number of complete
// generations is right.
func (r *rig) checkChain(generations int) {
	r.Helper()
	complete, real, ids := map[int]int{}, map[string]string{}, map[string]bool{}
	for _, row := range r.rows() {
		if row.Status == generation.RowCompleted {
			complete[row.Generation]++
		}
		dir, err := filepath.EvalSymlinks(r.path(row.WorkspaceOut))
		if err != nil || ids[row.Run] {
			r.Errorf("%s is there again, or has no files: %v", row.Run, err)
		}
		if other := real[dir]; other != "" {
			r.Errorf("%s has the files of %s", row.Run, other)
		}
		ids[row.Run], real[dir] = true, row.Run
		if template := strings.TrimPrefix(row.TemplateIn, "checkpoint:"); !exists(r.path(template)) {
			r.Errorf("%s began with %s, which is gone", row.Run, row.TemplateIn)
		}
	}
	for g := range generations {
		if complete[g+1] != 1 {
			r.Errorf("generation %d is complete %d times:\n%s", g+1, complete[g+1], r.chain())
		}
	}
}

// chain returns the content of generation_chain.csv.
func (r *rig) chain() string {
	r.Helper()
	data, err := os.ReadFile(r.path("village/generation_chain.csv"))
	if err != nil {
		r.Error(err)
	}
	return string(data)
}

// statuses returns the ids and the statuses of the rows.
func (r *rig) statuses() (all []string) {
	r.Helper()
	for _, row := range r.rows() {
		all = append(all, fmt.Sprintf("%s %s", row.Run, row.Status))
	}
	return all
}

// TestChainAfterGoingBack goes back to a checkpoint twice. The paths in rows that were read before still name the same
// files, and the rows of the runs that the user left are marked.
func TestChainAfterGoingBack(t *testing.T) {
	r := newRig(t)
	c := r.config(2, 3)
	r.kind.more = func(n int) string { return fmt.Sprintf("echo %d > turn", n) }
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := map[string]string{} // files by path
	for i, want := range [][]string{
		{"village-g001-a1 completed", "village-g002-a1 completed"},
		{"village-g001-a1 superseded", "village-g002-a1 superseded", "village-g001-a2 completed", "village-g002-a2 completed"},
		{"village-g001-a1 superseded", "village-g002-a1 superseded", "village-g001-a2 completed", "village-g002-a2 superseded", "village-g002-a3 completed"},
	} {
		if i > 0 {
			c.ResumeFrom = r.path([]string{"village-g001/checkpoints/gen001-t000002.ckpt", "village/attempts/village-g002-a2/checkpoints/gen002-t000001.ckpt"}[i-1])
			if err := generation.New(c).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, r.statuses()); diff != "" {
			t.Error(diff)
		}
		r.checkChain(2)
		for path, turn := range left {
			if now, err := os.ReadFile(path); err != nil || string(now) != turn {
				t.Errorf("%s has turn %q, was %q: %v", path, now, turn, err)
			}
		}
		for _, row := range r.rows() {
			path := r.path(row.WorkspaceOut, "turn")
			turn, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			left[path] = string(turn)
		}
	}
	if len(left) != 5 {
		t.Errorf("%d workspaces", len(left))
	}
	last := r.rows()[4]
	if last.Ticks != 3 || last.SimTime != segno.SimTime(3*6*3600*1e9) || last.Checkpoints != 2 || last.WhyNot != "" || last.Outcomes["cash"] < 200 ||
		last.End.Before(last.Start) || last.Seconds != last.End.Sub(last.Start).Seconds() {
		t.Errorf("the last row is %+v", last)
	}
}

// TestRowsOfFailures checks the rows of attempts that failed, that the user stopped, and whose runner was killed.
func TestRowsOfFailures(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 4)
	c.Retries = 1
	r.kind.more = func(n int) string {
		if n == 2 {
			return "exit 1"
		}
		return "true"
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTick && e.Tick == 2 {
			cancel()
		}
	}
	stop := func() {
		t.Helper()
		if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
			t.Fatal(err)
		}
	}
	stop()
	if diff := cmp.Diff([]string{"village-g001-a1 failed"}, r.statuses()); diff != "" {
		t.Error(diff)
	}
	ctx, cancel = context.WithCancel(t.Context())
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTick && e.Tick == 3 {
			cancel()
		}
	}
	stop()
	r.forgetEnd("village-g001") // a killed runner leaves this state
	r.on = nil
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"village-g001-a1 failed", "village-g001-a2 superseded", "village-g001-a3 failed", "village-g001-a4 completed"}
	if diff := cmp.Diff(want, r.statuses()); diff != "" {
		t.Error(diff)
	}
	r.checkChain(1)
	for i, ticks := range []int{1, 2, 3, 4} {
		if row := r.rows()[i]; row.Ticks != ticks || row.Checkpoints != 1 {
			t.Errorf("row %d has %d ticks and %d checkpoints", i, row.Ticks, row.Checkpoints)
		}
	}
}

// TestRowBeforeFirstCheckpoint reads the record of each attempt when it begins. A runner that is killed before its first
// checkpoint leaves these rows: they have the time and the outcomes of the checkpoint with which the attempt began.
func TestRowBeforeFirstCheckpoint(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 4)
	c.Retries = 1
	r.kind.more = func(n int) string {
		if n == 3 {
			return "exit 1"
		}
		return "true"
	}
	type row struct {
		Ticks    int                `json:"ticks"`
		Time     float64            `json:"sim_seconds"`
		Outcomes map[string]float64 `json:"outcomes"`
	}
	var got []row
	r.on = func(e generation.Event) {
		if e.Kind != generation.EventBegin {
			return
		}
		data, err := os.ReadFile(r.path("village-g001/run.json"))
		var record struct{ Rows []row }
		if err == nil {
			err = json.Unmarshal(data, &record)
		}
		if err != nil || len(record.Rows) != 1 {
			t.Fatalf("%d rows, %v", len(record.Rows), err)
		}
		got = append(got, record.Rows...)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Ticks != 0 || got[0].Time != 0 || got[1].Ticks != 2 || got[1].Time != 2*6*60*60 || len(got[1].Outcomes) == 0 {
		t.Errorf("the rows are %+v", got)
	}
}

// forgetEnd removes the state in which a run ended from its record.
func (r *rig) forgetEnd(run string) {
	r.Helper()
	path := r.path(run, "run.json")
	data, err := os.ReadFile(path)
	var record map[string]any
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	delete(record, "state")
	if err == nil {
		data, err = json.Marshal(record)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// TestChainFollowsDirectories renames a run, like a runner that is killed before it writes the chain. The next runner
// writes the chain.
func TestChainFollowsDirectories(t *testing.T) {
	r := newRig(t)
	c := r.config(2, 2)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.path("village-g002"), r.path("village-g002.replaced-20260101T000000Z")); err != nil {
		t.Fatal(err)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"village-g001-a1 completed", "village-g002-a1 superseded", "village-g002-a2 completed"}
	if diff := cmp.Diff(want, r.statuses()); diff != "" {
		t.Error(diff)
	}
	r.checkChain(2)
	if err := os.Remove(r.path("village/generation_chain.csv")); err != nil {
		t.Fatal(err)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.statuses()) != 3 {
		t.Errorf("the file was lost, and its rows are now %q", r.statuses())
	}
	if err := os.RemoveAll(r.path("village-g002.replaced-20260101T000000Z")); err != nil {
		t.Fatal(err)
	}
	if err := generation.New(c).Run(t.Context()); err != nil || len(r.statuses()) != 3 {
		t.Errorf("rows of a run that the user removed: %q, %v", r.statuses(), err)
	}
}

// firstForm is a chain in the format of the first version.
const firstForm = `generation,agent_index,agent_name,run_id,tmux_session,template_in,workspace_out,start_utc,end_utc,duration_seconds
1,0,Ada,village-g001,,,village-g001/agents/Ada/workspace,2026-11-01T10:00:00.000Z,2026-11-01T10:00:01.500Z,1.500
2,0,Ada,village-g002,,village-g001/agents/Ada/workspace,village-g002/agents/Ada/workspace,2026-11-01T10:00:02.000Z,2026-11-01T10:00:03.000Z,1.000
2,0,Ada,village-g002,,checkpoint:old.ckpt,village-g002/agents/Ada/workspace,2026-11-01T11:00:02.000Z,2026-11-01T11:00:03.000Z,1.000
`

// TestFirstChain reads and continues an experiment of an earlier version, whose runs had no ids.
func TestFirstChain(t *testing.T) {
	r := newRig(t)
	for path, content := range map[string]string{
		"village/generation_chain.csv":                                        firstForm,
		"village-g001/run.json":                                               `{"generation":1,"start_utc":"2026-11-01T10:00:00Z"}`,
		"village-g001/agents/Ada/workspace/notes":                             "turn\n",
		"village-g002/run.json":                                               `{"generation":2,"start_utc":"2026-11-01T11:00:02Z"}`,
		"village-g002/agents/Ada/workspace/notes":                             "turn\nturn\n",
		"village-g002.replaced-20261101T110001Z/run.json":                     `{"generation":2,"start_utc":"2026-11-01T10:00:02Z"}`,
		"village-g002.replaced-20261101T110001Z/agents/Ada/workspace/notes":   "old\n",
		"village-g002.failed-20261101T110000Z/run.json":                       `{"generation":2,"start_utc":"2026-11-01T10:30:00Z"}`,
		"village-g002.failed-20261101T110000Z/agents/Ada/workspace/forgotten": "",
		"old.ckpt": "",
	} {
		if err := os.MkdirAll(filepath.Dir(r.path(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.path(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"village-g001-a1 completed", "village-g002-a1 superseded", "village-g002-a2 completed"}
	if diff := cmp.Diff(want, r.statuses()); diff != "" {
		t.Fatal(diff)
	}
	if err := generation.New(r.config(3, 1)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(want, "village-g003-a1 completed"), r.statuses()); diff != "" {
		t.Error(diff)
	}
	r.checkNotes("village-g003", 3)
	rows := r.rows()
	if old, err := os.ReadFile(r.path(rows[1].WorkspaceOut, "notes")); err != nil || string(old) != "old\n" {
		t.Errorf("the replaced run left %q, %v", old, err)
	}
	if rows[0].Seconds != 1.5 || rows[3].WhyNot == "" {
		t.Errorf("the rows are %+v", rows)
	}
}

// TestDamagedChain refuses a file with other columns, and keeps it.
func TestDamagedChain(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 1)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := r.chain()
	for name, damaged := range map[string]string{
		"empty": "", "no header": strings.SplitN(whole, "\n", 2)[1], "other column": strings.Replace(whole, "agent_name", "agent", 1),
		"number": strings.Replace(whole, "\n1,", "\none,", 1), "outcome": strings.Replace(whole, ",cash,", ",Cash!,", 1),
		"short": strings.TrimSuffix(whole, ",0\n") + "\n", "yes with a reason": strings.Replace(whole, ",yes,", ",no,", 1),
	} {
		if err := os.WriteFile(r.path("village/generation_chain.csv"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindCorrupt {
			t.Errorf("%s: the error is %v", name, err)
		}
		if r.chain() != damaged {
			t.Errorf("%s: the file was overwritten", name)
		}
	}
}

// TestColumnsAreReserved checks that no outcome of a world can have the name of another column.
func TestColumnsAreReserved(t *testing.T) {
	r := newRig(t)
	if err := generation.New(r.config(1, 1)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(r.chain(), "\n")
	fixed, outcomes, _ := strings.Cut(header, ",cash,")
	if outcomes != "trades,units_missed,units_sold" {
		t.Errorf("the outcomes are cash,%s", outcomes)
	}
	for _, name := range strings.Split(fixed, ",") {
		if err := (world.Outcomes{name: 1}).Check(); err == nil {
			t.Errorf("a world may have the outcome %s", name)
		}
	}
}

// badOutcomes is a world that, from a certain tick on, has an outcome that cannot be a column.
type badOutcomes struct {
	generation.World
	from time.Duration
}

func (w badOutcomes) Snapshot(ctx context.Context) (segno.WorldSnapshot, error) {
	s, err := w.World.Snapshot(ctx)
	if s.Time < segno.SimTime(w.from) {
		return s, err
	}
	s.Document = []byte(strings.Replace(string(s.Document), `"cash":`, `"Cash in hand":`, -1))
	return s, err
}

// TestUnusableOutcomes ends the run before an agent does any work.
func TestUnusableOutcomes(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 2)
	c.Retries = 3
	c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
		w, err := startLocal(ctx, s)
		return badOutcomes{w, 0}, err
	}
	err := generation.New(c).Run(t.Context())
	if segno.KindOf(err) != segno.KindInvalid || !strings.Contains(err.Error(), "Cash in hand") || len(r.kind.turns) != 0 {
		t.Errorf("%d turns were made, and the error is %v", len(r.kind.turns), err)
	}
	if diff := cmp.Diff([]string{"village-g001-a1 failed"}, r.statuses()); diff != "" {
		t.Error(diff)
	}
}

// TestOutcomesThatAreLost makes the outcomes of a generation unreadable. The generation continues, and its rows lack
// the outcomes.
func TestOutcomesThatAreLost(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 3)
	c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
		w, err := startLocal(ctx, s)
		return badOutcomes{w, 12 * time.Hour}, err
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := r.find(generation.EventNoOutcomes)
	if len(lost) != 1 || lost[0].Tick != 2 || !strings.Contains(lost[0].Error, "Cash in hand") {
		t.Errorf("the events are %+v", lost)
	}
	if rows := r.rows(); len(rows) != 1 || rows[0].Status != generation.RowCompleted || rows[0].Outcomes != nil || rows[0].Ticks != 3 {
		t.Errorf("the rows are %+v", rows)
	}
}

// TestChainAfterDeath kills the runner at one operation on the disk while the user goes back to a checkpoint. The next
// runner leaves a correct chain, and the paths in rows that were read before still name the same files.
func TestChainAfterDeath(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	run := func(t *testing.T, faults *faultfs.Faults) {
		t.Helper()
		r := newRig(t)
		c := r.config(2, 2)
		r.kind.more = func(n int) string { return fmt.Sprintf("echo %d > turn", n) }
		if err := generation.New(c).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := r.rows()
		again := c
		again.FS, again.Retries = faults.Wrap(vfs.OS), 0
		again.ResumeFrom = r.path("village-g001/checkpoints/gen001-t000001.ckpt")
		_ = generation.New(again).Run(t.Context()) // the next runner completes the work
		if err := generation.New(c).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.checkChain(2)
		for i, row := range before {
			if turn, err := os.ReadFile(r.path(row.WorkspaceOut, "turn")); err != nil || string(turn) != fmt.Sprintln(2*i+2) {
				t.Errorf("%s leads to turn %q, %v", row.WorkspaceOut, turn, err)
			}
		}
	}
	whole := faultfs.FailAt(-1)
	run(t, whole)
	for _, n := range faultfs.Sample(t, whole.Trace()) {
		faults := faultfs.FailAt(n)
		faults.Forever = true
		run(t, faults)
		if t.Failed() {
			t.Fatalf("operation %d: %s", n, whole.Trace()[n])
		}
	}
}
