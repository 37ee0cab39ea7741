package timeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

var testEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// pointers is a thread without files whose head the tests move.
type pointers struct {
	*testing.T
	store segno.Store
	head  segno.Head
}

// newPointers makes a thread with a base and one checkpoint for each kind. A turn's steps have
// the turn's number.
func newPointers(t *testing.T, kinds ...segno.CheckpointKind) *pointers {
	t.Helper()
	p := &pointers{T: t, store: memory.New(nil)}
	p.commit("base", &segno.Checkpoint{Kind: segno.CheckpointBase})
	turn := 1
	for i, kind := range kinds {
		p.commit(segno.CommitID(fmt.Sprintf("%s %d", kind, i+1)), &segno.Checkpoint{Kind: kind, Step: i + 1, Turn: turn})
		if kind == segno.CheckpointTurn {
			turn++
		}
	}
	return p
}

// commit adds a commit to the thread, with a checkpoint or without one.
func (p *pointers) commit(id segno.CommitID, cp *segno.Checkpoint) {
	p.Helper()
	c := segno.Commit{ID: id, Thread: "thread", Parent: p.head.Head, Expect: p.head.Head, Epoch: p.head.Epoch, Checkpoint: cp,
		Entries: []segno.Entry{{Kind: segno.EntryMessage, Name: "user", Body: []byte(`"text"`), Time: testEpoch}}}
	if p.head.Head == "" {
		c.Create = &segno.Thread{ID: "thread", Created: testEpoch}
	}
	var err error
	if p.head, err = p.store.Commit(p.Context(), c); err != nil {
		p.Fatal(err)
	}
}

// move fails the test unless a move ends at the commit want or, if want is "", finds too few
// turns or steps.
func (p *pointers) move(ask timeline.MoveRequest, want segno.CommitID) {
	p.Helper()
	ask.Thread = "thread"
	_, err := timeline.Open(timeline.Config{Store: p.store}).MoveHead(p.Context(), ask)
	head, failed := p.store.Head(p.Context(), "thread")
	if failed != nil {
		p.Fatal(failed)
	}
	switch {
	case want == "" && segno.KindOf(err) != segno.KindNotFound:
		p.Errorf("%s %d: %v, want not found", ask.Verb, ask.Turns, err)
	case want != "" && (err != nil || head.Head != want):
		p.Errorf("%s %d: the head is %q, want %q (%v)", ask.Verb, ask.Turns, head.Head, want, err)
	}
}

func (p *pointers) undo(n int, want segno.CommitID) {
	p.Helper()
	p.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: n}, want)
}

// TestAnUndoOfFilesNeedsTheFiles tries undos that change files only, without a workspace.
func TestAnUndoOfFilesNeedsTheFiles(t *testing.T) {
	p := newPointers(t, segno.CheckpointTurn, segno.CheckpointTurn)
	before := p.head.Head
	for _, ask := range []timeline.MoveRequest{{Only: []int{1}}, {Turns: 1, Paths: []string{"a"}}, {Turns: 1, Parts: map[string][]int{}}} {
		ask.Verb, ask.Thread = segno.VerbUndo, "thread"
		_, err := timeline.Open(timeline.Config{Store: p.store}).Move(t.Context(), ask, nil)
		if head, failed := p.store.Head(t.Context(), "thread"); segno.KindOf(err) != segno.KindRefused || failed != nil || head.Head != before {
			t.Errorf("%+v: %v, the head is %q", ask, err, head.Head)
		}
	}
}

func (p *pointers) redo(n int, want segno.CommitID) {
	p.Helper()
	p.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: n}, want)
}

func (p *pointers) undoSteps(n int, want segno.CommitID) {
	p.Helper()
	p.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: n, Steps: true}, want)
}

func (p *pointers) redoSteps(n int, want segno.CommitID) {
	p.Helper()
	p.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: n, Steps: true}, want)
}

// TestUndoCountsTurnsOrSteps verifies that undo skips the steps inside a turn, and that an
// interrupted turn ends at its last step.
func TestUndoCountsTurnsOrSteps(t *testing.T) {
	const step, turn = segno.CheckpointStep, segno.CheckpointTurn
	p := newPointers(t, step, step, turn, step, turn, step)
	p.undo(1, "turn 5")
	p.undo(1, "turn 3")
	p.redo(1, "turn 5")
	p.redo(1, "step 6")
	p.redo(1, "")
	p.undo(2, "turn 3")
	p.redo(2, "step 6")
	p.undo(3, "base")
	p.undo(1, "")
	p.redo(3, "step 6")
	p.undo(4, "")
	p.undoSteps(1, "turn 5")
	p.undoSteps(1, "step 4")
	p.undo(1, "turn 3")
	if head, err := p.store.Head(t.Context(), "thread"); err != nil || head.Tip != "step 6" {
		t.Errorf("the tip is %q, %v", head.Tip, err)
	}
}

// TestUndoOfCommitsWithoutACheckpoint undoes entries that were committed after the newest
// checkpoint.
func TestUndoOfCommitsWithoutACheckpoint(t *testing.T) {
	p := newPointers(t, segno.CheckpointStep, segno.CheckpointStep)
	p.commit("entries", nil)
	p.undoSteps(1, "step 2")
	p.redoSteps(1, "entries")
	p.undoSteps(2, "step 1")
	p.redoSteps(2, "entries")
	p.undo(1, "base")
	p.redo(1, "entries")
	if _, err := timeline.Open(timeline.Config{Store: p.store}).ForkThread(t.Context(), "entries", segno.Thread{ID: "fork", Created: testEpoch}, false); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("fork at a commit without a checkpoint: %v", err)
	}
	p = newPointers(t, segno.CheckpointTurn)
	p.commit("entries", nil)
	p.undo(1, "turn 1")
	p.redo(1, "entries")
	p.undo(2, "base")
	p.redo(1, "turn 1")
}

// TestUndoStopsAtTheFirstCheckpoint verifies an undo in a thread that begins with a step.
func TestUndoStopsAtTheFirstCheckpoint(t *testing.T) {
	p := &pointers{T: t, store: memory.New(nil)}
	for i, id := range []segno.CommitID{"one", "two", "three"} {
		p.commit(id, &segno.Checkpoint{Kind: segno.CheckpointStep, Step: i + 1, Turn: 1})
	}
	p.undo(1, "one")
	p.undo(1, "")
	p.redo(1, "three")
}

// TestForkThreadCopiesTheTiers verifies that the base of a fork has the tiers of its checkpoint
// but no field that describes the turn.
func TestForkThreadCopiesTheTiers(t *testing.T) {
	p := newPointers(t)
	full := segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 3, Step: 7, Time: testEpoch.Add(time.Hour), Agent: "agent", Prompt: "prompt", Label: "label",
		Key: "key", Meta: map[string]string{"a": "b"}}
	p.commit("full", &full)
	head, err := timeline.Open(timeline.Config{Store: p.store}).ForkThread(t.Context(), "full", segno.Thread{ID: "fork", Created: testEpoch, Title: "a fork"}, false)
	if err != nil {
		t.Fatal(err)
	}
	line, err := p.store.Load(t.Context(), head.Head, segno.Window{Last: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := full
	want.ID, want.Thread, want.Parent, want.Seq = head.Head, "fork", "full", 1
	want.Kind, want.Time, want.Key, want.Label = segno.CheckpointBase, testEpoch, "", ""
	if diff := cmp.Diff(want, *line.Commits[0].Checkpoint); diff != "" {
		t.Error(diff)
	}
	if head.Turn != 3 {
		t.Errorf("the fork continues at turn %d, want 3", head.Turn)
	}
}
