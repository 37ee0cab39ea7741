package local_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestRedoAfterARestore checks that a redo brings back all changes of a turn that a restore removed, although an earlier
// undo of the same turn left a file out. That undo was undone.
func TestRedoAfterARestore(t *testing.T) {
	g := newFixture(t)
	g.write("a", "1\n")
	g.write("b", "1\n")
	move := func(ask timeline.MoveRequest) {
		t.Helper()
		if _, err := g.move(nil, ask); err != nil {
			t.Fatal(err)
		}
	}
	turn := func(key, content string) segno.CommitID {
		t.Helper()
		if err := g.turn(key, func() { g.write("a", content); g.write("b", content) }); err != nil {
			t.Fatal(err)
		}
		_, head := g.checkpoints()
		return head.Head
	}
	first, second := turn("one", "2\n"), turn("two", "3\n")
	g.write("b", "2\n") // the user reverts a part of the turn
	move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
	for _, to := range []segno.CommitID{second, first} {
		move(timeline.MoveRequest{Verb: segno.VerbRestore, To: to, Scope: timeline.ScopeBoth})
	}
	move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
	if got, want := g.files(), "a \"3\\n\"\nb \"3\\n\"\n"; got != want {
		t.Errorf("after the redo the files are\n%swant\n%s", got, want)
	}
}

// TestRedoOfOneStepOfAnUndoneTurn checks that a redo of one step writes the files of that step alone after the whole turn was undone,
// and that a redo of the turn writes all its files after its steps were undone one by one.
func TestRedoOfOneStepOfAnUndoneTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		undo []timeline.MoveRequest
		redo timeline.MoveRequest
		want string
	}{
		"one step":       {[]timeline.MoveRequest{{Turns: 1}}, timeline.MoveRequest{Turns: 1, Steps: true}, "file \"1\"\n"},
		"the whole turn": {[]timeline.MoveRequest{{Turns: 1, Steps: true}, {Turns: 1, Steps: true}}, timeline.MoveRequest{Turns: 1}, "file \"3\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.steps("file", "file", "file")
			for _, ask := range tc.undo {
				ask.Verb = segno.VerbUndo
				if _, err := g.move(nil, ask); err != nil {
					t.Fatal(err)
				}
			}
			tc.redo.Verb = segno.VerbRedo
			moved, err := g.move(nil, tc.redo)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.files(); got != tc.want {
				t.Errorf("the thread is at %s %d, and the files are %q, want %q", moved.Head.Kind, moved.Head.Step, got, tc.want)
			}
		})
	}
}

// TestForceAfterAnUndoOfOneStep checks that a forced undo of a turn undoes the whole turn, although the undo of its last step left a
// conflict: the rest of that undo is not the rest of an undo of the turn.
func TestForceAfterAnUndoOfOneStep(t *testing.T) {
	g := newFixture(t)
	g.steps("other", "file", "file")
	g.write("file", "user")
	moved, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Steps: true})
	if err != nil || len(moved.Plan.Conflicts) != 1 {
		t.Fatalf("%+v, %v", moved, err)
	}
	if moved, err = g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Force: true}); err != nil {
		t.Fatal(err)
	}
	if got := g.files(); moved.Head.Turn != 0 || got != "" {
		t.Errorf("the thread is at %s %d of t%d, and the files are %q", moved.Head.Kind, moved.Head.Step, moved.Head.Turn, got)
	}
}

// steps makes a thread with one turn of a Go agent. Each step writes its number to a file, and the last one ends the turn.
func (g *fixture) steps(files ...string) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		base, err := tl.Save(ctx, segno.CheckpointSave, "")
		if err != nil {
			return err
		}
		turn := timeline.OpenTurn{Key: "steps", Agent: "go", Thread: base.Thread, Process: timeline.Process{PID: os.Getpid()}}
		if err := tl.BeginSteps(ctx, turn); err != nil {
			return err
		}
		head, err := tl.Store.Head(ctx, base.Thread)
		for i := 0; i < len(files) && err == nil; i++ {
			g.write(files[i], fmt.Sprint(i+1))
			cp := &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Step: i + 1, Agent: "go", Time: g.place.Now()}
			if i == len(files)-1 {
				cp.Kind = segno.CheckpointTurn
			}
			c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: base.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Checkpoint: cp}
			head, err = tl.CommitStep(ctx, c, turn.Key)
		}
		if err != nil {
			return err
		}
		return tl.EndSteps(ctx, turn.Key)
	})
	if err != nil {
		g.Fatal(err)
	}
}
