package local_test

import (
	"testing"

	"github.com/dalsegno/segno"
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
