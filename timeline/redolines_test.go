package timeline_test

import (
	"fmt"
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
	type removal int // of the last line of a turn, or if it is negative, of the first
	for name, steps := range map[string][]any{
		"an undo between two redos":                  {undo(2), redo(1), removal(2), undo(1), redo(2)},
		"an undo of all after a partial redo":        {undo(3), redo(2), removal(1), undo(2), redo(1), redo(1), redo(1)},
		"a restore":                                  {removal(3), restore, redo(2)},
		"a restore, and two redos":                   {removal(2), restore, redo(1), redo(1)},
		"the op undo of a redo":                      {undo(2), redo(2), removal(3), opUndo, redo(2)},
		"the op undo of a redo, and of the undo":     {undo(2), redo(2), removal(3), opUndo, opUndo},
		"the op undo of a redo of a part":            {undo(3), redo(2), removal(2), opUndo, redo(3)},
		"the op undo of a part, and of undos before": {undo(1), undo(1), redo(2), removal(2), opUndo, opUndo, redo(1)},
		"two undos of both after redos of one each":  {undo(2), redo(1), redo(1), removal(2), removal(-2), undo(2), redo(2)},
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
					file := all[max(step, -step)-1]
					if step > 0 {
						want[file] = want[file][:len(want[file])-1]
					} else {
						want[file] = want[file][1:]
					}
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

// TestForceFinishesARedo redoes one of two undone turns after the user wrote into the line of that turn. 'redo --force' must overwrite this conflict, and
// not redo the other turn. An undo and a redo lead back to the line of the user then.
func TestForceFinishesARedo(t *testing.T) {
	e := newEdited(t, nil, t.TempDir())
	for i := range 3 {
		e.put(map[string]int{"a": i + 1, "b": i + 1})
	}
	e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
	e.change(map[string]int{"a": 7})
	if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}); len(p.Conflicts) != 1 {
		t.Fatalf("the redo has the conflicts %v", p.Conflicts)
	}
	p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1, Force: true})
	if got := e.contents(); p.Finishes == "" || got["a"] != "2\n" || got["b"] != "2\n" {
		t.Errorf("redo --force moved over %v and left %q", p.Turns, got)
	}
	e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
	e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
	if got := e.contents(); got["a"] != "7\n" || got["b"] != "1\n" {
		t.Errorf("two op undos left %q", got)
	}
	e.change(map[string]int{"a": 1})
	e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 2})
	if got := e.contents(); got["a"] != "3\n" || got["b"] != "3\n" {
		t.Errorf("the redo of both left %q", got)
	}
}

// TestARedoBringsBackWhatForceOverwrote undoes two turns with --force over a file that the user changed, at once or after a first undo that left the
// conflict. The redos, one by one, lead back to the state before.
func TestARedoBringsBackWhatForceOverwrote(t *testing.T) {
	for name, first := range map[string]bool{"at once": false, "after a conflict": true} {
		for _, redos := range [][]int{{2}, {1, 1}} {
			t.Run(name, func(t *testing.T) {
				e := newEdited(t, nil, t.TempDir())
				for i := range 3 {
					e.put(map[string]int{"a": i + 1, "b": i + 1})
				}
				e.change(map[string]int{"a": 7})
				before := e.contents()
				undo := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}
				if first {
					e.move(undo)
				}
				undo.Force = true
				e.move(undo)
				if got := e.contents(); got["a"] != "1\n" || got["b"] != "1\n" {
					t.Fatalf("undo --force left %q", got)
				}
				for _, k := range redos {
					if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}); len(p.Conflicts) > 0 {
						t.Errorf("the redo has the conflicts %v", p.Conflicts)
					}
				}
				if got := e.contents(); !maps.Equal(got, before) {
					t.Errorf("the redos %v left %q, want %q", redos, got, before)
				}
			})
		}
	}
}

// TestARedoMakesWhatAnEarlierOneCouldNot redoes a turn whose file the user changed, goes back, and redoes it again. The file is a conflict as long as
// the change of the user is there, and comes back after it is gone.
func TestARedoMakesWhatAnEarlierOneCouldNot(t *testing.T) {
	for name, back := range map[string]timeline.MoveRequest{
		"op undo": {Verb: segno.VerbOpUndo}, "undo": {Verb: segno.VerbUndo, Turns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			for i := range 3 {
				e.put(map[string]int{"a": i + 1, "b": i + 1})
			}
			e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
			e.change(map[string]int{"a": 7})
			for range 2 {
				if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}); len(p.Conflicts) != 1 {
					t.Errorf("the redo has the conflicts %v", p.Conflicts)
				}
				e.move(back)
			}
			e.change(map[string]int{"a": 1})
			for i := range 2 {
				p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
				want := fmt.Sprint(i+2, "\n")
				if got := e.contents(); got["a"] != want || got["b"] != want || len(p.Conflicts) > 0 {
					t.Errorf("the redo has the conflicts %v and left %q", p.Conflicts, got)
				}
			}
		})
	}
}

// TestARedoLeavesOutAnotherLine undoes a turn of each of two lines together with a turn that both have. The redo of one line makes
// nothing of the other.
func TestARedoLeavesOutAnotherLine(t *testing.T) {
	for _, verb := range []segno.Verb{segno.VerbRedo, segno.VerbOpUndo} {
		t.Run(string(verb), func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			undo := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}
			e.put(map[string]int{"a": 1})
			e.put(map[string]int{"new": 1})
			e.move(undo)
			e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
			e.put(map[string]int{"b": 1})
			want := e.contents()
			e.move(undo)
			e.move(timeline.MoveRequest{Verb: verb, Turns: 2})
			if got := e.contents(); !maps.Equal(got, want) {
				t.Errorf("the files are %q, want %q", got, want)
			}
		})
	}
}
