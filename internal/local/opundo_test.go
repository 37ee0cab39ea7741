package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestOpUndoBelowAMoveOfTheConversation undoes an operation that did not move the conversation, after a later one did. The conversation
// must be that of the checkpoint to which the op undo leads.
func TestOpUndoBelowAMoveOfTheConversation(t *testing.T) {
	restore := func(to *segno.Checkpoint, scope timeline.Scope) timeline.MoveRequest {
		return timeline.MoveRequest{Verb: segno.VerbRestore, To: to.ID, Scope: scope}
	}
	for name, tc := range map[string]struct {
		moves func(t1, t2 *segno.Checkpoint) []timeline.MoveRequest
		undo  int // the index of the move to undo
		leaf  int // the conversation must end with this turn then
	}{
		"a restore of the conversation": {func(t1, _ *segno.Checkpoint) []timeline.MoveRequest {
			return []timeline.MoveRequest{restore(t1, timeline.ScopeFiles), restore(t1, timeline.ScopeChat)}
		}, 0, 2},
		"a redo": {func(t1, _ *segno.Checkpoint) []timeline.MoveRequest {
			return []timeline.MoveRequest{restore(t1, timeline.ScopeBoth), restore(t1, timeline.ScopeBoth), {Verb: segno.VerbRedo, Turns: 1}}
		}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.write("a", "0")
			c := g.chat(1)
			turns := []*segno.Checkpoint{c.runTurn("one"), c.runTurn("two")}
			var ops []segno.OperationID
			for _, ask := range tc.moves(turns[0], turns[1]) {
				moved, err := g.move(nil, ask)
				if err != nil {
					t.Fatal(err)
				}
				ops = append(ops, moved.Plan.Operation)
			}
			if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: ops[tc.undo]}); err != nil {
				t.Fatal(err)
			}
			thread := g.summarize(turns[0].Thread)
			at, link := thread.at(t, thread.head.Head), thread.head.Link
			end := c.head // of the first session
			if link.Session != c.session {
				end = link.Position.Leaf
			}
			if want := turns[tc.leaf-1].Session.Leaf; at.Session.Leaf != want || end != want {
				t.Errorf("the checkpoint ends at %s, and the session at %s, want %s", at.Session.Leaf, end, want)
			}
		})
	}
}

// TestOpUndoToBeforeTheFirstPrompt undoes the redo of the first turn. No session ends before its first prompt, so the conversation
// stays, and the user sees that as after the undo of the turn.
func TestOpUndoToBeforeTheFirstPrompt(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	g.chat(1).runTurn("one")
	why := g.undo(timeline.MoveRequest{}).Chat
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}); err != nil {
		t.Fatal(err)
	}
	moved, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo})
	if err != nil {
		t.Fatal(err)
	}
	if why == "" || moved.Chat != why {
		t.Errorf("after the undo of the turn the user sees %q, after the op undo %q", why, moved.Chat)
	}
	again, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: moved.Plan.Operation})
	if err != nil || again.Chat != "" {
		t.Errorf("the op undo of the op undo: %q, %v", again.Chat, err)
	}
}

// TestOpUndoAfterACollection undoes a move of a directory that lacks the repository which its checkpoints record as protected, as after a
// pull. The move made no checkpoint for that, and the states between which it moved outlive a collection.
func TestOpUndoAfterACollection(t *testing.T) {
	g := newFixture(t)
	for _, dir := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(g.project, ".git", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g.write(".git/HEAD", "ref: refs/heads/main\n")
	g.write("a", "0")
	for _, key := range []string{"A", "B"} {
		if err := g.turn(key, func() { g.write("a", key) }); err != nil {
			t.Fatal(err)
		}
	}
	before, head := g.checkpoints()
	if err := os.RemoveAll(filepath.Join(g.project, ".git")); err != nil {
		t.Fatal(err)
	}
	g.undo(timeline.MoveRequest{})
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }
	if err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		collected, err := s.CollectLocked(ctx, segno.CollectPolicy{Trace: s.NewTrace()})
		if err == nil && collected.Objects == 0 {
			t.Error("the collection dropped nothing")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	moved, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(g.project, "a")); err != nil || string(got) != "B" || len(moved.Plan.Kept) > 0 || moved.Plan.Lost {
		t.Errorf("the op undo left %q (%v) and kept %v", got, err, moved.Plan.Kept)
	}
	if after, at := g.checkpoints(); len(after) != len(before) || at.Head != head.Head {
		t.Errorf("%d checkpoints and the head %s; before the undo, %d and %s", len(after), at.Head, len(before), head.Head)
	}
	g.checkStore()
}
