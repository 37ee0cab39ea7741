package timeline_test

import (
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestRedosOfOneTurnEachKeepWhatTheUserRemoved lets the user remove one of the lines that the last of two turns wrote. After an undo of
// both, two redos of one turn each must lead to the state before the undo, as one redo of both does.
func TestRedosOfOneTurnEachKeepWhatTheUserRemoved(t *testing.T) {
	e := newEdited(t, nil, t.TempDir())
	e.put(map[string]int{"b": 1})
	src := segno.Source{Session: "session"}
	begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "write"})
	e.must(err)
	lines := e.files()["a"]
	e.write("a", slices.Concat([]string{"t.1"}, lines, []string{"t.2"}))
	_, err = e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
	e.must(err)
	want := slices.Concat([]string{"t.1"}, lines)
	e.write("a", want)

	e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
	for range 2 {
		e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
	}
	if got := e.files()["a"]; !slices.Equal(got, want) {
		t.Errorf("the redos led to %q, want %q", got, want)
	}
}
