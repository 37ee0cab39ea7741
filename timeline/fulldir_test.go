package timeline_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestAPlanKnowsThatADirectoryStays lets a turn replace a file by a directory, in which a protected directory is. No move removes what is
// protected, so the file cannot come back. The preview must list it, as the move does.
func TestAPlanKnowsThatADirectoryStays(t *testing.T) {
	for name, verb := range map[string]segno.Verb{"undo": segno.VerbUndo, "undo --force": segno.VerbUndo, "restore": segno.VerbRestore} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			first := e.put(map[string]int{"b": 1})
			src := segno.Source{Session: "session"}
			begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "replace"})
			e.must(err)
			dir := filepath.Join(e.root, "a")
			e.must(os.Remove(dir))
			e.must(os.MkdirAll(filepath.Join(dir, "node_modules", "m"), 0o755))
			e.must(os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}\n"), 0o644))
			e.must(os.WriteFile(filepath.Join(dir, "node_modules", "m", "index.js"), []byte("\n"), 0o644))
			_, err = e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
			e.must(err)

			ask := timeline.MoveRequest{Verb: verb, Turns: 1, Force: name == "undo --force"}
			if verb == segno.VerbRestore {
				ask.To, ask.Scope = first, timeline.ScopeBoth
			}
			before := e.tree()
			p, err := e.site.Preview(t.Context(), ask)
			e.must(err)
			moved := e.move(ask)
			for _, s := range p.Steps {
				if !slices.Contains(differing(before, e.tree()), s.Path) {
					t.Errorf("the preview promised %s, which did not change", s.Path)
				}
			}
			if !slices.Equal(p.Conflicts, moved.Conflicts) || len(p.Conflicts) != 1 {
				t.Errorf("the preview has the conflicts %v, and the move %v", p.Conflicts, moved.Conflicts)
			}

			e.must(os.RemoveAll(dir)) // the user lets the file come back
			if verb == segno.VerbRestore {
				e.move(ask)
			} else if again := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Force: true}); len(again.Turns) != 1 || again.Turns[0] != 2 {
				t.Errorf("undo --force undid %v", again.Turns)
			}
			if info, err := os.Stat(dir); err != nil || !info.Mode().IsRegular() {
				t.Errorf("the file did not come back: %v", maps.Keys(e.tree()))
			}
		})
	}
}

// TestForceRemovesTheDirectoryOfItsConflict undoes a turn that made a directory, in which the user changed a file since. The undo leaves the
// file, and 'undo --force' removes it, with the directories that the turn made. A file of the user keeps its directory.
func TestForceRemovesTheDirectoryOfItsConflict(t *testing.T) {
	for name, ofUser := range map[string]string{"alone": "", "beside a file": "new/mine"} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			src := segno.Source{Session: "session"}
			e.put(map[string]int{"b": 1})
			begun, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "make"})
			e.must(err)
			before := e.tree()
			e.must(os.MkdirAll(filepath.Join(e.root, "new", "inner"), 0o755))
			e.write("new/inner/file", []string{"1"})
			_, err = e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
			e.must(err)
			e.write("new/inner/file", []string{"2"})
			if ofUser != "" {
				e.write(ofUser, []string{"3"})
			}
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); len(p.Conflicts) != 1 {
				t.Fatalf("the undo has the conflicts %v", p.Conflicts)
			}
			p := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Force: true})
			want := []string{}
			if ofUser != "" {
				want = []string{"new", ofUser}
			}
			if got := differing(before, e.tree()); !slices.Equal(slices.Sorted(slices.Values(got)), want) || p.Finishes == "" {
				t.Errorf("undo --force left %v, want %v", got, want)
			}
		})
	}
}
