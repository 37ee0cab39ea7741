package timeline_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestAnUndoOfPathsLeadsWhereAnUndoOfTheTurnsDoes lets two turns change files that are as before the turns at the end: the user made or changed them
// in between, and the last turn removed that. The undo of these paths brings back what the user wrote, as the undo of both turns does.
func TestAnUndoOfPathsLeadsWhereAnUndoOfTheTurnsDoes(t *testing.T) {
	for name, paths := range map[string][]string{"a file": {"new"}, "a line": {"a"}, "all": {"."}, "both": {"new", "a"}} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			lines := e.files()["a"]
			turn := func(do func()) {
				src := segno.Source{Session: "session"}
				begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "write"})
				e.must(err)
				do()
				_, err = e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
				e.must(err)
			}
			turn(func() { e.write("a", append([]string{"t.1"}, lines...)) })
			e.change(map[string]int{"new": 5})
			e.write("a", append(slices.Clone(lines), "u.1"))
			turn(func() { e.change(map[string]int{"new": 0}); e.write("a", lines) })

			before := e.contents()
			e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
			want := e.contents()
			e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
			for file := range want {
				if !slices.Contains(paths, file) && paths[0] != "." {
					delete(want, file)
					if content, exists := before[file]; exists {
						want[file] = content
					}
				}
			}
			e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turn: 1, Paths: paths})
			if got := e.contents(); !maps.Equal(got, want) || maps.Equal(got, before) {
				t.Errorf("the undo of %q left %q, want %q", paths, got, want)
			}
		})
	}
}
