package timeline_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// afterConflict makes two turns, undoes both, and redoes them after the user changed a file, which is a conflict then. The user gives the
// file more contents, one after the other.
func (e *edited) afterConflict(contents ...int) {
	e.Helper()
	for i := range 3 {
		e.put(map[string]int{"a": i + 1, "b": i + 1})
	}
	e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
	e.change(map[string]int{"a": 7})
	if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 2}); len(p.Conflicts) != 1 {
		e.Fatalf("the redo has the conflicts %v", p.Conflicts)
	}
	for _, c := range contents {
		e.change(map[string]int{"a": c})
	}
}

// TestAnOpUndoMakesNothingOfEarlierMoves undoes turns with a file that an earlier redo left as a conflict. The op undo of that undo leads to
// the state before it, and has no conflict, whatever the file is.
func TestAnOpUndoMakesNothingOfEarlierMoves(t *testing.T) {
	for name, contents := range map[string][]int{"the conflict is there": nil, "the user made the former content": {1}} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			e.afterConflict(contents...)
			before := e.contents()
			undo := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
			p := e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: undo.Operation})
			if got := e.contents(); !maps.Equal(got, before) || len(p.Conflicts) > 0 {
				t.Errorf("the op undo has the conflicts %v and left %q, want %q", p.Conflicts, got, before)
			}
		})
	}
}

// TestARedoLeavesWhatTheUserRevertedAfterAConflict lets the user give a file, which a redo left as a conflict, the content from before the turns,
// while these are in effect. Redos after an undo lead to the state before the undo.
func TestARedoLeavesWhatTheUserRevertedAfterAConflict(t *testing.T) {
	for _, undos := range [][]int{{2}, {1, 1}} {
		for _, redos := range [][]int{{2}, {1, 1}} {
			t.Run(fmt.Sprint(undos, redos), func(t *testing.T) {
				e := newEdited(t, nil, t.TempDir())
				e.afterConflict(1)
				before := e.contents()
				for _, k := range undos {
					e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k})
				}
				for _, k := range redos {
					e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k})
				}
				if got := e.contents(); !maps.Equal(got, before) {
					t.Errorf("the redos left %q, want %q", got, before)
				}
			})
		}
	}
}
