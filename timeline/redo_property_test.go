package timeline_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// contents returns the files of the directory by name.
func (e *edited) contents() map[string]string {
	entries, err := os.ReadDir(e.root)
	e.must(err)
	all := map[string]string{}
	for _, d := range entries {
		data, err := os.ReadFile(filepath.Join(e.root, d.Name()))
		e.must(err)
		all[d.Name()] = string(data)
	}
	return all
}

// put makes one turn that gives some files one of two contents, or removes them. It returns the head after the turn.
func (e *edited) put(files map[string]int) segno.CommitID {
	e.turns++
	src := segno.Source{Session: "session"}
	begun, err := e.site.BeginTurn(e.Context(), timeline.Prompt{Agent: "test", Source: src, Text: fmt.Sprint("turn ", e.turns)})
	e.must(err)
	e.change(files)
	ended, err := e.site.EndTurn(e.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
	e.must(err)
	return ended.ID
}

// change gives some files one of several contents, or removes them.
func (e *edited) change(files map[string]int) {
	for name, content := range files {
		if content == 0 {
			e.must(os.RemoveAll(filepath.Join(e.root, name)))
			continue
		}
		e.write(name, []string{fmt.Sprint(content)})
	}
}

// TestRedoLeadsToTheStateOfEachTurn moves back over some turns in one move, by an undo, a restore or the op undo of a redo, and redoes
// fewer of them. Only turns write, so the files must be those of the turn. The turns often revert what earlier ones did, so that the
// move back writes less than its turns changed.
func TestRedoLeadsToTheStateOfEachTurn(t *testing.T) {
	checkEdited(t, func(r *rapid.T, e *edited) {
		heads, states := []segno.CommitID{""}, []map[string]string{e.contents()}
		for range rapid.IntRange(2, 4).Draw(r, "turns") {
			files := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "new"}), rapid.IntRange(0, 2), 1, 3).Draw(r, "files")
			heads, states = append(heads, e.put(files)), append(states, e.contents())
		}
		last := len(states) - 1
		undone := rapid.IntRange(1, last).Draw(r, "undo")
		again := rapid.IntRange(1, undone).Draw(r, "redo")
		back := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: undone}
		e.move(back)
		switch rapid.SampledFrom([]string{"undo", "restore", "op undo"}).Draw(r, "by") {
		case "restore":
			if undone < last {
				e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
				e.move(timeline.MoveRequest{Verb: segno.VerbRestore, To: heads[last-undone], Scope: timeline.ScopeBoth})
			}
		case "op undo":
			e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: undone})
			e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
		}
		if got := e.contents(); !maps.Equal(got, states[last-undone]) {
			r.Fatalf("after the move back over %d of %d turns: %q, want %q", undone, last, got, states[last-undone])
		}
		e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: again})
		if got := e.contents(); !maps.Equal(got, states[last-undone+again]) {
			r.Fatalf("after a redo of %d of %d undone turns: %q, want %q", again, undone, got, states[last-undone+again])
		}
	})
}

// TestRedosLeadBackOverAMoveOfFiles reverts one turn alone, goes back by one undo, and redoes the turns one by one or several at a time.
// The last redo leads to the state before the undo, in which the turn is reverted.
func TestRedosLeadBackOverAMoveOfFiles(t *testing.T) {
	checkEdited(t, func(r *rapid.T, e *edited) {
		for range rapid.IntRange(1, 3).Draw(r, "turns") {
			e.put(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "new"}), rapid.IntRange(0, 2), 1, 3).Draw(r, "files"))
		}
		alone := rapid.IntRange(1, e.turns).Draw(r, "alone")
		_, err := e.site.Move(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Only: []int{alone}}, nil)
		if segno.KindOf(err) == segno.KindNotFound {
			return // the turn changed nothing
		}
		e.must(err)
		before := e.contents()
		left := rapid.IntRange(1, e.turns).Draw(r, "undo")
		if p := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: left}); len(p.Conflicts) > 0 {
			return
		}
		for left > 0 {
			k := rapid.IntRange(1, left).Draw(r, "redo")
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}); len(p.Conflicts) > 0 {
				return
			}
			left -= k
		}
		if got := e.contents(); !maps.Equal(got, before) {
			r.Fatalf("led back: %q, want %q", got, before)
		}
	})
}

// TestARedoOfStepsBringsBackEach undoes all steps of a Go agent's turn at once, and redoes them one by one. The last step reverted the
// one before it.
func TestARedoOfStepsBringsBackEach(t *testing.T) {
	e := newEdited(t, nil, t.TempDir())
	const thread = "run"
	var head segno.Head
	var states []map[string]string
	for i, content := range []string{"", "1\n", ""} {
		name := filepath.Join(e.root, "new")
		if content == "" {
			e.must(os.RemoveAll(name))
		} else {
			e.must(os.WriteFile(name, []byte(content), 0o644))
		}
		kind := segno.CheckpointStep
		c := segno.Commit{ID: segno.CommitID(fmt.Sprint("step ", i)), Thread: thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch}
		if i == 0 {
			kind, c.Create = segno.CheckpointBase, &segno.Thread{ID: thread, Created: time.Now()}
		}
		c.Checkpoint = &segno.Checkpoint{Kind: kind, Turn: min(i, 1), Step: i, Time: time.Now()}
		var err error
		head, err = e.site.CommitStep(t.Context(), c, "")
		e.must(err)
		states = append(states, e.contents())
	}
	e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Thread: thread, Turns: 2, Steps: true})
	for i, want := range states[1:] {
		e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Thread: thread, Turns: 1, Steps: true})
		if got := e.contents(); !maps.Equal(got, want) {
			t.Errorf("after step %d: %q, want %q", i+1, got, want)
		}
	}
}
