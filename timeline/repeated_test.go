package timeline_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// TestARepeatedMoveMovesOnce interrupts a move while it writes files, and repeats it. The second call must only complete the first.
func TestARepeatedMoveMovesOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		first []timeline.MoveRequest
		ask   timeline.MoveRequest
		want  int // the files have the changes of this many turns at the end
	}{
		"undo":    {nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, 2},
		"redo":    {[]timeline.MoveRequest{{Verb: segno.VerbUndo, Turns: 3}}, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}, 1},
		"op undo": {[]timeline.MoveRequest{{Verb: segno.VerbUndo, Turns: 1}, {Verb: segno.VerbUndo, Turns: 1}}, timeline.MoveRequest{Verb: segno.VerbOpUndo}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			states := []map[string][]string{e.files()}
			for i := range 3 {
				src := segno.Source{Session: "session"}
				begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: fmt.Sprint("turn ", i+1)})
				e.must(err)
				e.write("a", []string{fmt.Sprint("content ", i+1)})
				_, err = e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
				e.must(err)
				states = append(states, e.files())
			}
			for _, ask := range tc.first {
				e.move(ask)
			}
			c := e.site.Config
			c.Workspace = &failing{c.Workspace.(*workspace.Dir), 1}
			if _, err := timeline.Open(c).Move(t.Context(), tc.ask, nil); !errors.Is(err, errInterrupted) {
				t.Fatalf("the first attempt ended with %v", err)
			}
			if _, err := e.site.Move(t.Context(), tc.ask, nil); segno.KindOf(err) != segno.KindConflict {
				t.Errorf("the second attempt ended with %v", err)
			}
			if got := e.files(); !maps.EqualFunc(got, states[tc.want], slices.Equal) {
				t.Errorf("after two attempts the files are %q, want %q", got, states[tc.want])
			}
		})
	}
}

// TestARepeatedUndoBesideARequestedMoveMovesOnce repeats an interrupted undo while a move that another thread requested waits for its turn.
func TestARepeatedUndoBesideARequestedMoveMovesOnce(t *testing.T) {
	e := newEdited(t, nil, t.TempDir())
	begin := func(session segno.SessionID, text string) timeline.TurnStart {
		begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: segno.Source{Session: session}, Text: text})
		e.must(err)
		e.write(string(session), []string{text})
		return begun
	}
	var thread, other segno.ThreadID
	for _, text := range []string{"first", "second", "third"} {
		for session, id := range map[segno.SessionID]*segno.ThreadID{"a": &thread, "b": &other} {
			begun := begin(session, text)
			end, err := e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: segno.Source{Session: session}, Agent: "test"})
			e.must(err)
			*id = end.Thread
		}
	}
	begin("b", "fourth")
	_, err := e.site.RequestMove(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: other})
	e.must(err)

	ask := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: thread, WhileRunning: true}
	c := e.site.Config
	c.Workspace = &failing{c.Workspace.(*workspace.Dir), 1}
	if _, err := timeline.Open(c).Move(t.Context(), ask, nil); !errors.Is(err, errInterrupted) {
		t.Fatalf("the first attempt ended with %v", err)
	}
	if _, err := e.site.Move(t.Context(), ask, nil); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("the second attempt ended with %v", err)
	}
	if got := e.files()["a"]; !slices.Equal(got, []string{"second"}) {
		t.Errorf("after two attempts the file is %q", got)
	}
}
