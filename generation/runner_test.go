package generation_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

// TestStopAndContinue ends the context after two ticks. The next run continues there, and each turn
// runs only once.
func TestStopAndContinue(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTick && e.Tick == 2 {
			cancel()
		}
	}
	c := r.config(2, 4)
	if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("the error is %v", err)
	}
	s, p, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || s.State != generation.StateStopped || p.ElapsedTicks != 2 {
		t.Errorf("the status is %+v at %+v, %v", s, p, err)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var begins []int
	for _, e := range r.find(generation.EventBegin) {
		begins = append(begins, e.Tick)
	}
	if diff := cmp.Diff([]int{0, 2, 0}, begins); diff != "" {
		t.Error(diff)
	}
	r.checkNotes("village-g001", 4)
	r.checkNotes("village-g002", 8)
	if len(r.kind.turns) != 8 {
		t.Errorf("%d turns were made, want 8", len(r.kind.turns))
	}
	if r.kind.turns[0] == r.kind.turns[1] || r.kind.turns[1] != r.kind.turns[2] || r.kind.turns[0] != r.kind.turns[4] {
		t.Errorf("a resumed agent gets another prompt: %q", r.kind.turns)
	}
	l, err := generation.ReadLog(c.Out, "village")
	if err != nil || len(l.Rows) != 3 || !strings.HasPrefix(l.Rows[1].TemplateIn, "checkpoint:village-g001.failed-") {
		t.Errorf("the log is %+v, %v", l.Rows, err)
	}
	for i, c := range l.Checkpoints[1:] {
		if c.Parent != l.Checkpoints[i].Digest {
			t.Errorf("%s does not continue %s", c.Path, l.Checkpoints[i].Path)
		}
	}
}

// TestStopWithinTurn ends the context during a turn that never ends.
func TestStopWithinTurn(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(r.dir, "started")
	r.kind.more = func(n int) string {
		if n != 2 {
			return "true"
		}
		go func() {
			waitFor(t, func() bool { return exists(started) })
			cancel()
		}()
		return "echo $$ > " + started + "; exec sleep 1000"
	}
	c := r.config(1, 3)
	c.Grace = time.Millisecond
	if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("the error is %v", err)
	}
	m := r.manifest("village-g001/checkpoints/gen001-t000001.ckpt")
	if m.Cut.Consistency != archive.Barrier {
		t.Errorf("the moment is %s", m.Cut.Consistency)
	}
	pid, err := os.ReadFile(started)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { // its new parent may not have read its exit status yet
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g001", 4) // the interrupted turn wrote its line, and then began again
}

// TestGraceIsForAllAgents ends the context while three agents act, each for less than their grace and all for more, together or
// in order. The grace counts once: the runner does not wait for the last agent.
func TestGraceIsForAllAgents(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	const grace = 3 * time.Second
	for order, seconds := range map[string][]string{generation.OrderTogether: {"2", "4", "6"}, generation.OrderFixed: {"2", "2", "2"}} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.kind.more = func(n int) string { return "sleep " + seconds[(n-1)%3] }
			ctx, cancel := context.WithCancel(t.Context())
			r.on = func(e generation.Event) {
				if e.Kind == generation.EventTurn {
					cancel()
				}
			}
			c := r.config(1, 2)
			ada := c.Experiment.Agents[0]
			for _, name := range []string{"Bo", "Cy"} {
				ada.Name = name
				c.Experiment.Agents = append(c.Experiment.Agents, ada)
			}
			c.Experiment.Order, c.Grace = order, grace
			if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
				t.Fatalf("the error is %v", err)
			}
			if ends := len(r.find(generation.EventTurnEnd)); ends == 3 {
				t.Error("the runner waited for all three agents, which took longer than their grace")
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, condition func() bool) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(5 * time.Minute); !condition(); <-poll.C {
		if time.Now().After(deadline) {
			t.Error("it did not happen within five minutes")
			return
		}
	}
}

// TestFailingAgent makes an agent fail. The newest checkpoint is damaged, so the generation continues from the one
// before.
func TestFailingAgent(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(n int) string {
		if n != 4 {
			return "true"
		}
		path := r.path("village-g001/checkpoints/gen001-t000003.ckpt")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		data[100] ^= 1 // in the lists, so that it cannot be opened
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Error(err)
		}
		return "exit 3"
	}
	c := r.config(1, 5)
	c.Retries = 1
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g001", 5)
	bad := r.find(generation.EventBadCheckpoint)
	if len(bad) != 1 || !strings.HasSuffix(bad[0].Path, "gen001-t000003.ckpt") {
		t.Errorf("refused are %+v", bad)
	}
	if failed := r.find(generation.EventFailed); len(failed) != 2 || !strings.Contains(failed[0].Error, "exit status 3") {
		t.Errorf("the failures are %+v", failed)
	}
	if l, err := generation.ReadLog(c.Out, "village"); err != nil || !strings.HasSuffix(l.Rows[1].TemplateIn, "/gen001-t000002.ckpt") {
		t.Errorf("it began with %+v, %v", l.Rows, err)
	}
}

// TestWorldThatDoesNotStart makes the world fail once while it starts. The generation is retried.
func TestWorldThatDoesNotStart(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 2)
	c.Retries = 1
	starts := 0
	c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
		if starts++; starts == 1 {
			return (*localWorld)(nil), errors.New("it was killed")
		}
		return startLocal(ctx, s)
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g001", 2)
	if failed := r.find(generation.EventFailed); len(failed) != 2 || failed[0].Error != "it was killed" {
		t.Errorf("the failures are %+v", failed)
	}
}

// TestBudget makes an agent fail each time. The runner gives up after the retries of the budget.
func TestBudget(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(n int) string {
		if n == 1 {
			return "true"
		}
		return "exit 1"
	}
	c := r.config(1, 3)
	c.Retries = 2
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindIO {
		t.Errorf("the error is %v", err)
	}
	if len(r.kind.turns) != 4 {
		t.Errorf("%d turns, want one that is complete and three that failed", len(r.kind.turns))
	}
	s, p, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || s.State != generation.StateFailed || s.Retries != 2 {
		t.Errorf("the status is %+v, %v", s, err)
	}
	if _, err := os.Stat(r.path("village", p.Checkpoint)); err != nil {
		t.Error(err)
	}
	c.NoAutoResume = true
	r.kind.more = nil
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	begins := r.find(generation.EventBegin)
	if last := begins[len(begins)-1]; last.Tick != 0 || last.Path != "" {
		t.Errorf("it began with %+v, not with its template", last)
	}
}

// TestResumeFrom goes back to a checkpoint of a complete generation.
func TestResumeFrom(t *testing.T) {
	r := newRig(t)
	c := r.config(2, 3)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := r.manifest("village-g002/checkpoints/gen002-t000003.ckpt")
	c.ResumeFrom = r.path("village-g001/checkpoints/gen001-t000002.ckpt")
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.kind.turns) != 6+4 {
		t.Errorf("%d turns, want 6 and 4", len(r.kind.turns))
	}
	after := r.manifest("village-g002/checkpoints/gen002-t000003.ckpt")
	sums := func(m *archive.Manifest) (all []string) {
		for _, e := range m.Entries {
			all = append(all, e.Path+" "+e.SHA256)
		}
		return all
	}
	if diff := cmp.Diff(sums(before), sums(after)); diff != "" {
		t.Error(diff)
	}
	l, err := generation.ReadLog(c.Out, "village")
	if template := strings.TrimPrefix(l.Rows[2].TemplateIn, "checkpoint:"); !strings.Contains(template, ".replaced-") || !exists(r.path(template)) {
		t.Errorf("the row has %s", l.Rows[2].TemplateIn)
	}
	if err != nil || len(l.Rows) != 4 || len(l.Checkpoints) != 6+4 {
		t.Errorf("%d rows and %d checkpoints, %v", len(l.Rows), len(l.Checkpoints), err)
	}
	c.ResumeFrom, c.Ours = r.path("village-g001/checkpoints/gen001-t000003.ckpt"), func(string) bool { return false }
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("an archive of another machine: %v", err)
	}
}

// TestStopAfterGoingBack stops a generation to which the user went back. The next run continues it, although
// the chain has rows of all generations.
func TestStopAfterGoingBack(t *testing.T) {
	r := newRig(t)
	c := r.config(2, 4)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTick && e.Tick == 3 {
			cancel()
		}
	}
	back := c
	back.ResumeFrom = r.path("village-g001/checkpoints/gen001-t000002.ckpt")
	if err := generation.New(back).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("the error is %v", err)
	}
	r.on = nil
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.kind.turns); n != 8+2+4 {
		t.Errorf("%d turns, want 8, then 2 of generation 1 and 4 of generation 2", n)
	}
	r.checkNotes("village-g002", 8)
	if err := generation.New(c).Run(t.Context()); err != nil || len(r.kind.turns) != 14 {
		t.Errorf("a complete experiment has %d more turns, %v", len(r.kind.turns)-14, err)
	}
}

// TestGoBackWithFewerGenerations lowers the number of generations, goes back, and raises the number again. The later
// generations begin with what the new attempts left, and do not count as complete because of those before.
func TestGoBackWithFewerGenerations(t *testing.T) {
	r := newRig(t)
	if err := generation.New(r.config(3, 1)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := r.config(1, 1)
	back.ResumeFrom = r.path("village-g001/checkpoints/gen001-t000001.ckpt")
	for _, c := range []generation.Config{back, r.config(3, 1)} {
		if err := generation.New(c).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"village-g001-a1 superseded", "village-g002-a1 superseded", "village-g003-a1 superseded",
		"village-g001-a2 completed", "village-g002-a2 completed", "village-g003-a2 completed"}
	if diff := cmp.Diff(want, r.statuses()); diff != "" {
		t.Error(diff)
	}
}

// TestAnotherMachine continues from a checkpoint in an installation that has no record of it.
func TestAnotherMachine(t *testing.T) {
	here, there := newRig(t), newRig(t)
	c := here.config(3, 2)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(here.path("village-g002/checkpoints/gen002-t000001.ckpt"))
	if err != nil {
		t.Fatal(err)
	}
	c = there.config(3, 2)
	c.ResumeFrom, c.Ours = filepath.Join(there.dir, "from.ckpt"), func(string) bool { return false }
	if err := os.WriteFile(c.ResumeFrom, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindRefused {
		t.Fatalf("without trust: %v", err)
	}
	c.Trust = true
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(there.kind.turns) != 3 {
		t.Errorf("%d turns, want 1 and 2", len(there.kind.turns))
	}
	there.checkNotes("village-g003", 6)
}

// TestFailureAfterGoingBack fails immediately after the user went back to a checkpoint. The retry begins with
// the same checkpoint, and not with a newer one that the user has left.
func TestFailureAfterGoingBack(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 5)
	c.Retries = 1
	r.kind.more = func(n int) string {
		if n == 4 || n == 7 { // in the fourth tick, and immediately after going back
			return "exit 1"
		}
		return "true"
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed, _ := filepath.Glob(r.path("village-g001.failed-*"))
	if len(failed) != 1 {
		t.Fatalf("the failed runs are %q", failed)
	}
	c.ResumeFrom = filepath.Join(failed[0], "checkpoints/gen001-t000001.ckpt")
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g001", 5)
	var begins []int
	for _, e := range r.find(generation.EventBegin) {
		begins = append(begins, e.Tick)
	}
	if diff := cmp.Diff([]int{0, 3, 1, 1}, begins); diff != "" {
		t.Error(diff)
	}
}

// TestHostileAgent leaves files that cannot be copied and a process that outlives its turn.
func TestHostileAgent(t *testing.T) {
	r := newRig(t)
	pids := filepath.Join(r.dir, "pids")
	r.kind.more = func(n int) string {
		if n > 2 {
			return "true"
		}
		return "mkfifo pipe$$; ln -s / root$$; ln -s self self; mkdir -p locked; touch locked/x; chmod 0 locked; " +
			"printf x > 'new\nline'; (setsid sh -c 'echo $$ >> " + pids + "; exec sleep 1000' >/dev/null 2>&1 &); " +
			"until test -s " + pids + "; do :; done; rm -rf ../home ../run; mkdir ../home"
	}
	c := r.config(2, 2)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g002", 4)
	data, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(data)) {
		waitFor(t, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}

// TestKeep keeps the newest archives and the last one of each generation.
func TestKeep(t *testing.T) {
	r := newRig(t)
	c := r.config(3, 4)
	c.Keep = 2
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(r.archives("village-g001"), r.archives("village-g002"), r.archives("village-g003"))
	want := []string{"gen001-t000004.ckpt", "gen002-t000004.ckpt", "gen003-t000003.ckpt", "gen003-t000004.ckpt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecondRunner starts a second runner, which is refused while the first one runs.
func TestSecondRunner(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	r := newRig(t)
	c := r.config(1, 1)
	var second error
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTick {
			other := c
			other.Report = nil
			second = generation.New(other).Run(t.Context())
			if s, _, err := generation.ReadStatus(t.Context(), c.Out, "village"); err != nil || s.State != generation.StateRunning {
				t.Errorf("the status is %+v, %v", s, err)
			}
		}
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if segno.KindOf(second) != segno.KindBusy {
		t.Errorf("the second runner: %v", second)
	}
}

// secretText is a key that opens nothing. It is in parts, so that no scan finds it here.
func secretText() string { return "AKIA" + "Z7VRSQ5TJN2XMPLK" }

// TestFailingDisk fails one operation of the runner at a time. The experiment continues or ends with an error, and
// the next run completes it.
func TestFailingDisk(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	run := func(t *testing.T, faults *faultfs.Faults) (failed error) {
		r := newRig(t)
		c := r.config(2, 2)
		c.FS, c.Retries = faults.Wrap(vfs.OS), 1
		failed = generation.New(c).Run(t.Context())
		c.FS = vfs.OS
		if err := generation.New(c).Run(t.Context()); err != nil {
			t.Errorf("after %v: %v", failed, err)
		}
		r.checkNotes("village-g001", 2)
		r.checkNotes("village-g002", 4)
		r.checkChain(2)
		return failed
	}
	whole := faultfs.FailAt(-1)
	if err := run(t, whole); err != nil {
		t.Fatal(err)
	}
	for _, n := range faultfs.Sample(t, whole.Trace()) {
		faults := faultfs.FailAt(n)
		_ = run(t, faults) // it may have succeeded at its retry
		if t.Failed() {
			t.Fatalf("operation %d: %s", n, whole.Trace()[n])
		}
	}
}
