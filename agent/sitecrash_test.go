package agent_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// TestFilesOfAKilledRunCanBeUndone kills a run that works on a directory, right
// before or after any commit. Undo then restores the directory, or the turn
// is completed, and then undone and redone.
func TestFilesOfAKilledRunCanBeUndone(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	o := order{Site: true, Effect: agent.LostAsk, Prompt: "write a.txt: one\nwrite b/c.txt: two ; edit mine.txt: mine -> yours\nrun rm kept.txt"}
	before := map[string]string{"mine.txt": "mine", "kept.txt": "kept"}
	finished := map[string]string{"mine.txt": "yours", "a.txt": "one", "b/c.txt": "two"}
	dir := t.TempDir()
	fill(t, dir, before)
	commits, _ := child(t, "run", dir, o)
	if got := filesIn(t, dir); !maps.Equal(got, finished) {
		t.Fatalf("the turn makes %v", got)
	}
	pick := 4
	if soak.IsWhole() {
		pick = 1
	}
	for m := 2; m < 2*commits; m += pick { // the first commit makes the thread
		o.N, o.Commit = m/2+1, [...]string{"before", "after"}[m%2]
		for _, finish := range []bool{false, true} {
			t.Run(fmt.Sprint(o.Commit, " commit ", o.N, " of ", commits, ", finished: ", finish), func(t *testing.T) {
				dir := t.TempDir()
				fill(t, dir, before)
				if _, dead := child(t, "run", dir, o); !dead {
					t.Fatal("it is still alive")
				}
				r := after(t, dir, order{})
				root, err := atSite(r.ctx, &r.agent, r.store, dir)
				r.ok(err)
				defer root.Close()
				if w, err := r.agent.Status(r.ctx, thread); err != nil || w.Turn == 0 {
					r.ok(err)
					r.prompt(o.Prompt)
				} else if finish && !isOver(r) {
					r.finishLost()
				}
				if finish {
					if got := filesIn(t, dir); !maps.Equal(got, finished) {
						t.Errorf("finished, the directory holds %v", got)
					}
				}
				w := r.undo(1)
				if got := filesIn(t, dir); !maps.Equal(got, before) || len(w.Conflicts) > 0 {
					t.Errorf("undone, the directory holds %v; conflicts %v", got, w.Conflicts)
				}
				if !finish {
					return
				}
				r.redo(1)
				if got := filesIn(t, dir); !maps.Equal(got, finished) {
					t.Errorf("redone, the directory holds %v", got)
				}
			})
		}
	}
}

// TestATurnAfterAKilledRunCanBeUndone kills a run right after the last commit of its turn, as a program does that exits when it
// receives the done event. The next turn, of that thread or of another one, works alone in the directory.
func TestATurnAfterAKilledRunCanBeUndone(t *testing.T) {
	for _, other := range []string{thread, "another"} {
		t.Run(other, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, nil)
			commits, _ := child(t, "run", dir, order{Site: true, Prompt: "write a.txt: one"})
			fill(t, dir, nil)
			if _, dead := child(t, "run", dir, order{Site: true, Prompt: "write b.txt: two", Commit: "after", N: commits - 1}); !dead {
				t.Fatal("it is still alive")
			}
			before := map[string]string{"a.txt": "one", "b.txt": "two"}
			r := after(t, dir, order{})
			root, err := atSite(r.ctx, &r.agent, r.store, dir)
			r.ok(err)
			defer root.Close()
			r.one(r.run(agent.Input{Thread: other, Prompt: "run for f in *; do echo three > $f; done"}), agent.EventDone)
			w, err := r.agent.Undo(r.ctx, other, 1)
			r.ok(err)
			if got := filesIn(t, dir); !maps.Equal(got, before) || len(w.Conflicts) > 0 {
				t.Errorf("undone, the directory holds %v; conflicts %v", got, w.Conflicts)
			}
		})
	}
}

// finishLost completes a turn whose calls may all run again.
func (r *rig) finishLost() {
	r.Helper()
	all := r.run(agent.Input{})
	for all[len(all)-1].Kind == agent.EventInterrupted {
		all = r.run(agent.Input{Decide: []segno.Decision{approve(r.question())}})
	}
	r.one(all, agent.EventDone)
}

func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	at := filepath.Join(dir, "project")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	at := filepath.Join(dir, "project")
	err := filepath.WalkDir(at, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(at, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestAnotherThreadWhileARunIsDead has another thread work in the directory, or move, between the runs of a turn. An undo of the
// turn keeps the files of the other thread.
func TestAnotherThreadWhileARunIsDead(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	const other = "another"
	o := order{Site: true, Effect: agent.LostRetry, Prompt: "write a.txt: one\nwrite c.txt: two"}
	dir := t.TempDir()
	fill(t, dir, nil)
	commits, _ := child(t, "run", dir, o)
	prompt := func(r *rig) { r.one(r.run(agent.Input{Thread: other, Prompt: "run echo x > b.txt"}), agent.EventDone) }
	same := func(r *rig) { r.one(r.run(agent.Input{Thread: other, Prompt: "run echo x >> a.txt"}), agent.EventDone) }
	move := func(r *rig) {
		_, err := r.agent.Undo(r.ctx, other, 1)
		r.ok(err)
	}
	killed := func(r *rig) { // its process, which never had this PID, is dead
		r.ok(r.agent.Timeline.BeginSteps(r.ctx, timeline.OpenTurn{Key: "killed", Thread: other, Agent: "agent", Process: timeline.Process{PID: 1 << 30}}))
		for _, name := range []string{"b.txt", "d.txt"} {
			r.ok(os.WriteFile(filepath.Join(r.agent.Timeline.Workspace.Root(), name), []byte("y"), 0o644))
		}
	}
	for name, x := range map[string]struct {
		before, between func(r *rig)
		again           bool              // the run is killed once more, after the other thread worked
		keeps           map[string]string // nil means a.txt as it was before the undo
	}{
		"turn":            {nil, prompt, false, map[string]string{"b.txt": "x\n"}},
		"turn, two kills": {nil, prompt, true, map[string]string{"b.txt": "x\n"}},
		"same file":       {nil, same, false, nil},
		"undo":            {prompt, move, false, map[string]string{}},
		"killed turn":     {prompt, killed, true, map[string]string{"b.txt": "y", "d.txt": "y"}},
	} {
		for o.Commit, o.N = "after", 2; o.N < commits; o.N++ { // with the last one, the turn is over
			t.Run(fmt.Sprint(name, ", after commit ", o.N), func(t *testing.T) {
				dir := t.TempDir()
				fill(t, dir, nil)
				work := func(do func(r *rig)) {
					r := after(t, dir, order{})
					root, err := atSite(r.ctx, &r.agent, r.store, dir)
					r.ok(err)
					defer root.Close()
					do(r)
					r.ok(r.store.Close())
				}
				kill := func(o order) {
					if _, dead := child(t, "run", dir, o); !dead {
						t.Fatal("it is still alive")
					}
				}
				if x.before != nil {
					work(x.before)
				}
				kill(o)
				work(x.between)
				if x.again {
					kill(order{Site: true, Effect: agent.LostRetry, Commit: "after", N: 1})
				}
				keeps := x.keeps
				work(func(r *rig) {
					if !isOver(r) {
						r.finishLost()
					}
					if keeps == nil {
						keeps = map[string]string{"a.txt": filesIn(t, dir)["a.txt"]}
					}
					r.undo(1)
				})
				if got := filesIn(t, dir); !maps.Equal(got, keeps) {
					t.Errorf("undone, the directory holds %v, want %v", got, keeps)
				}
			})
		}
	}
}
