package agent_test

import (
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
)

// interruptedUndo is a thread "t" of two turns whose newest turn, which asks a question, was
// undone by a process that was killed after it had written the files.
func interruptedUndo(t *testing.T) (p *project, q segno.Interrupt) {
	t.Helper()
	home, killed := t.TempDir(), false
	fill(t, home, map[string]string{"mine.txt": "mine"})
	store := memory.New(nil)
	before := func(_ int, c segno.Commit) error {
		if killed && c.Operation != nil {
			return errDisk
		}
		return nil
	}
	p = &project{T: t, dir: filepath.Join(home, "project"), Agent: agent.New(agent.Config{Model: offline.New()})}
	root, err := atSite(t.Context(), &p.Agent, siteGate{&gate{lessor: store, before: before}, store}, home)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	c := p.Config
	c.Approve = agent.RequireApproval("execute")
	p.Agent = agent.New(c)
	p.prompt("write a.txt: one")
	q = p.prompt("write a.txt: two\nrun echo hi").Interrupts[0]
	killed = true
	if _, err := p.Undo(t.Context(), "t", 1); segno.KindOf(err) != segno.KindIO {
		t.Fatalf("the undo that was to be killed: %v", err)
	}
	killed = false
	p.holds(map[string]string{"mine.txt": "mine", "a.txt": "one"})
	return p, q
}

// operations returns the verbs of the operations on the directory, newest first.
func (p *project) operations() (verbs []segno.Verb) {
	p.Helper()
	for op, err := range p.Store.(segno.Workspaces).Operations(p.Context(), p.Timeline.Workspace.ID()) {
		if err != nil {
			p.Fatal(err)
		}
		verbs = append(verbs, op.Verb)
	}
	return verbs
}

// TestInterruptedUndoIsCompletedFirst calls each method of an agent as the first one after an undo that
// was killed. The undo must be complete before the method does anything, because no method may record
// over a half-made move.
func TestInterruptedUndoIsCompletedFirst(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *project, q segno.Interrupt) error
		kind segno.Kind // of the error
		turn int        // where the thread is afterwards
	}{
		{"Run with a prompt", func(p *project, _ segno.Interrupt) error {
			_, err := p.Agent.Run(p.Context(), agent.Input{Thread: "t", Prompt: "say hi"})
			return err
		}, segno.KindNone, 3},
		{"Run with a decision", func(p *project, q segno.Interrupt) error {
			_, err := p.Agent.Run(p.Context(), agent.Input{Thread: "t", Decide: []segno.Decision{approve(q)}})
			return err
		}, segno.KindNotFound, 1},
		{"Run of another thread", func(p *project, _ segno.Interrupt) error {
			_, err := p.Agent.Run(p.Context(), agent.Input{Thread: "other", Prompt: "say hi"})
			return err
		}, segno.KindNone, 1},
		{"Decide", func(p *project, q segno.Interrupt) error { return p.Decide(p.Context(), "t", approve(q)) }, segno.KindNotFound, 1},
		{"Reask", func(p *project, _ segno.Interrupt) error { _, err := p.Reask(p.Context(), "t"); return err }, segno.KindNone, 1},
		{"Redo", func(p *project, _ segno.Interrupt) error { _, err := p.Redo(p.Context(), "t", 1); return err }, segno.KindNone, 2},
		{"Undo", func(p *project, _ segno.Interrupt) error { _, err := p.Undo(p.Context(), "t", 1); return err }, segno.KindConflict, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, q := interruptedUndo(t)
			if err := c.do(p, q); segno.KindOf(err) != c.kind {
				t.Fatalf("error %v, want %s", err, c.kind)
			}
			verbs := p.operations()
			if len(verbs) == 0 || verbs[len(verbs)-1] != segno.VerbUndo {
				t.Errorf("the log has %v, want the undo first", verbs)
			}
			w, err := p.Status(t.Context(), "t")
			if err != nil || w.Turn != c.turn {
				t.Errorf("the thread is at turn %d, want %d; %v", w.Turn, c.turn, err)
			}
			want := map[string]string{"mine.txt": "mine", "a.txt": "one"}
			if c.name == "Redo" {
				want["a.txt"] = "two"
			}
			p.holds(want)
		})
	}
}

// TestInterruptedUndoIsCompletedAfterAnotherWriter has a program move or continue the thread. The program
// does not use the directory, so it cannot know of the interrupted undo. The files of the undo are
// completed and the undo is in the log; the thread stays where the other program left it.
func TestInterruptedUndoIsCompletedAfterAnotherWriter(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *project) error
		turn int
	}{
		{"a saver restores", func(p *project) error {
			at := saver.ThreadKey{Thread: "t"}
			for c, err := range p.Saver().History(p.Context(), at, segno.CheckpointQuery{}) {
				if err != nil {
					return err
				}
				if c.Kind == segno.CheckpointBase {
					_, err = p.Saver().Restore(p.Context(), at, c.ID)
					return err
				}
			}
			return nil
		}, 0},
		{"an agent without the directory ends the turn", func(p *project) error {
			c := p.Config
			c.Timeline = nil
			a := agent.New(c)
			w, err := a.Status(p.Context(), "t")
			if err == nil {
				_, err = a.Run(p.Context(), agent.Input{Thread: "t", Decide: []segno.Decision{reject(w.Interrupts[0], "no")}})
			}
			return err
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := interruptedUndo(t)
			if err := c.do(p); err != nil {
				t.Fatal(err)
			}
			p.write("mine.txt", "mine, edited meanwhile")
			if o, err := p.Agent.Run(t.Context(), agent.Input{Thread: "t", Prompt: "read a.txt"}); err != nil || !contains(o.Text, "one") {
				t.Errorf("the next turn: %q, %v", o.Text, err)
			}
			if verbs := p.operations(); len(verbs) != 1 || verbs[0] != segno.VerbUndo {
				t.Errorf("the log has %v, want the undo", verbs)
			}
			p.holds(map[string]string{"mine.txt": "mine, edited meanwhile", "a.txt": "one"})
			if w := p.moved(p.Undo(t.Context(), "t", 1)); w.Turn != c.turn {
				t.Errorf("before the next turn the thread was at turn %d, want %d", w.Turn, c.turn)
			}
		})
	}
}

// TestInterruptedUndoOfADeletedThread deletes the thread of an interrupted undo. The files of the undo
// are completed, and other threads continue in the directory.
func TestInterruptedUndoOfADeletedThread(t *testing.T) {
	p, _ := interruptedUndo(t)
	if err := p.Saver().Delete(t.Context(), saver.ThreadKey{Thread: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Agent.Run(t.Context(), agent.Input{Thread: "other", Prompt: "write b.txt: b"}); err != nil {
		t.Fatal(err)
	}
	p.holds(map[string]string{"mine.txt": "mine", "a.txt": "one", "b.txt": "b"})
}
