package timeline_test

import (
	"maps"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestAPathWithTheStateBeforeTheTurnsIsNotAConflict undoes two turns that changed a file, after the user reverted both changes. The undo
// has nothing to overwrite. If it reported a conflict, the user would repeat it with --force, and undo two further turns.
func TestAPathWithTheStateBeforeTheTurnsIsNotAConflict(t *testing.T) {
	for name, was := range map[string]int{"a": 1, "new": 0} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			e.put(map[string]int{name: was, "b": 1})
			before := e.contents()
			e.put(map[string]int{name: 2})
			e.put(map[string]int{name: 3})
			after := e.contents()
			e.change(map[string]int{name: was})
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}); len(p.Conflicts) > 0 || !maps.Equal(e.contents(), before) {
				t.Errorf("the undo has the conflicts %v and leaves %q, want %q", p.Conflicts, e.contents(), before)
			}
			e.change(map[string]int{name: 3})
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 2}); len(p.Conflicts) > 0 || !maps.Equal(e.contents(), after) {
				t.Errorf("the redo has the conflicts %v and leaves %q, want %q", p.Conflicts, e.contents(), after)
			}
		})
	}
}
