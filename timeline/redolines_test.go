package timeline_test

import (
	"maps"
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

// TestWhatTheUserRemovedStaysRemoved makes three turns, each of which writes a first and a last line to its own file. The user removes the last line
// of one turn among the moves. At the end, all turns are in effect, and that line alone is missing.
func TestWhatTheUserRemovedStaysRemoved(t *testing.T) {
	ask := func(verb segno.Verb, turns int) timeline.MoveRequest {
		return timeline.MoveRequest{Verb: verb, Turns: turns}
	}
	undo := func(turns int) timeline.MoveRequest { return ask(segno.VerbUndo, turns) }
	redo := func(turns int) timeline.MoveRequest { return ask(segno.VerbRedo, turns) }
	restore := timeline.MoveRequest{Verb: segno.VerbRestore, Scope: timeline.ScopeBoth} // the first turn
	opUndo := timeline.MoveRequest{Verb: segno.VerbOpUndo}
	type removal int // of the last line of a turn
	for name, steps := range map[string][]any{
		"an undo between two redos":                  {undo(2), redo(1), removal(2), undo(1), redo(2)},
		"an undo of all after a partial redo":        {undo(3), redo(2), removal(1), undo(2), redo(1), redo(1), redo(1)},
		"a restore":                                  {removal(3), restore, redo(2)},
		"a restore, and two redos":                   {removal(2), restore, redo(1), redo(1)},
		"the op undo of a redo":                      {undo(2), redo(2), removal(3), opUndo, redo(2)},
		"the op undo of a redo, and of the undo":     {undo(2), redo(2), removal(3), opUndo, opUndo},
		"the op undo of a redo of a part":            {undo(3), redo(2), removal(2), opUndo, redo(3)},
		"the op undo of a part, and of undos before": {undo(1), undo(1), redo(2), removal(2), opUndo, opUndo, redo(1)},
		"an undo after a move of files":              {ask(segno.VerbUndo, 0), removal(2), undo(3), redo(1), redo(2)},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			all := []string{"a", "b", "c"}
			want := e.files()
			src := segno.Source{Session: "session"}
			for i, file := range all {
				begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: file})
				e.must(err)
				want[file] = slices.Concat([]string{"first"}, want[file], []string{"last"})
				e.write(file, want[file])
				ended, err := e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
				e.must(err)
				if i == 0 {
					restore.To = ended.ID
				}
			}
			for _, step := range steps {
				switch step := step.(type) {
				case removal:
					file := all[step-1]
					want[file] = want[file][:len(want[file])-1]
					e.write(file, want[file])
				case timeline.MoveRequest:
					if step.Verb == segno.VerbRestore {
						step.To = restore.To
					}
					if step.Verb == segno.VerbUndo && step.Turns == 0 {
						step.Only = []int{1}
						want["a"] = want["a"][1 : len(want["a"])-1]
					}
					if p := e.move(step); len(p.Conflicts) > 0 {
						t.Fatalf("%s %s has the conflicts %v", p.Verb, p.Args, p.Conflicts)
					}
				}
			}
			if got := e.files(); !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("the files are %q, want %q", got, want)
			}
		})
	}
}

// TestTheOpUndoOfARestoreBringsBackTheUsersChanges restores the first of two turns, and undoes that. The lines and the file of the user, which
// the restore replaced, must be there again.
func TestTheOpUndoOfARestoreBringsBackTheUsersChanges(t *testing.T) {
	e := newEdited(t, nil, t.TempDir())
	first := e.put(map[string]int{"b": 1})
	lines := e.files()["a"]
	src := segno.Source{Session: "session"}
	begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "write"})
	e.must(err)
	e.write("a", slices.Concat([]string{"t.1"}, lines))
	_, err = e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
	e.must(err)
	e.write("a", slices.Concat([]string{"t.1"}, lines, []string{"u.1"}))
	e.write("mine", []string{"u.2"})
	before := e.contents()

	for range 2 {
		e.move(timeline.MoveRequest{Verb: segno.VerbRestore, To: first, Scope: timeline.ScopeBoth})
		e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
		if got := e.contents(); !maps.Equal(got, before) {
			t.Fatalf("the op undo left %q, want %q", got, before)
		}
	}
	e.move(timeline.MoveRequest{Verb: segno.VerbRestore, To: first, Scope: timeline.ScopeBoth})
	e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
	if got, want := e.files()["a"], slices.Concat([]string{"t.1"}, lines); !slices.Equal(got, want) {
		t.Errorf("the redo left %q, want %q", got, want)
	}
	for range 2 {
		e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
	}
	if got := e.contents(); !maps.Equal(got, before) {
		t.Errorf("the op undo of the redo and of the restore left %q, want %q", got, before)
	}
}
