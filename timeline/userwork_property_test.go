package timeline_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// tree returns the mode and the content of each path.
func (e *edited) tree() map[string]string {
	all := map[string]string{}
	e.must(filepath.WalkDir(e.root, func(path string, d fs.DirEntry, err error) error {
		e.must(err)
		name, err := filepath.Rel(e.root, path)
		e.must(err)
		info, err := d.Info()
		e.must(err)
		var content []byte
		if d.Type().IsRegular() {
			content, err = os.ReadFile(path)
			e.must(err)
		}
		to, _ := os.Readlink(path) // "" if it is not a symlink
		all[name] = info.Mode().String() + to + string(content)
		return nil
	}))
	return all
}

// replace replaces a path by one of another kind, or by a file with a content. If a directory above it is missing, replace does nothing.
func (e *edited) replace(name, kind string) {
	path := filepath.Join(e.root, name)
	if info, err := os.Lstat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return
	}
	switch e.must(os.RemoveAll(path)); kind {
	case "none":
	case "link":
		e.must(os.Symlink("a", path))
	case "directory":
		e.must(os.Mkdir(path, 0o755))
		e.must(os.WriteFile(filepath.Join(path, "x"), []byte("1\n"), 0o644))
	case "executable":
		e.must(os.WriteFile(path, []byte("1\n"), 0o644))
		e.must(os.Chmod(path, 0o755))
	default:
		e.must(os.WriteFile(path, []byte(kind+"\n"), 0o644))
	}
}

// content returns the state of a file without its mode, which a move may merge.
func content(state string) string { return state[min(len(state), len("-rw-r--r--")):] }

// differing returns the paths at which two trees differ.
func differing(a, b map[string]string) (paths []string) {
	for _, tree := range []map[string]string{a, b} {
		for name := range tree {
			if a[name] != b[name] && !slices.Contains(paths, name) {
				paths = append(paths, name)
			}
		}
	}
	return paths
}

// TestMovesKeepWhatTheUserWrote makes random turns and moves, and edits of a user, that replace the same paths by files, directories and
// symlinks. Only a restore and --force may change the content that the user wrote last. A move must change paths of its plan alone, and no
// conflict. A move that left conflicts and is repeated with --force must finish itself, and not undo another turn.
func TestMovesKeepWhatTheUserWrote(t *testing.T) {
	checkEdited(t, func(r *rapid.T, e *edited) {
		of := map[string]bool{} // paths that the user wrote last
		heads, states := []segno.CommitID{}, []map[string]string{}
		move := func(r *rapid.T, ask timeline.MoveRequest) *timeline.Plan {
			before := e.tree()
			moved, err := e.site.Move(e.Context(), ask, nil)
			if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindRefused {
				return &timeline.Plan{}
			}
			e.must(err)
			after, p := e.tree(), moved.Plan
			for _, name := range differing(before, after) {
				isStep := slices.ContainsFunc(p.Steps, func(c segno.Change) bool { return c.Path == name || strings.HasPrefix(c.Path, name+"/") })
				isConflict := slices.ContainsFunc(p.Conflicts, func(c segno.Conflict) bool { return c.Path == name })
				if !isStep || isConflict || of[name] && !ask.Force && ask.Verb != segno.VerbRestore && content(before[name]) != content(after[name]) {
					r.Fatalf("%s %s changed %s, the user's: %v, from %q to %q; conflicts %v", p.Verb, p.Args, name, of[name], before[name], after[name], p.Conflicts)
				}
				of[name] = of[name] && content(before[name]) == content(after[name])
			}
			return p
		}
		count := func(r *rapid.T) int { return rapid.IntRange(1, 3).Draw(r, "turns") }
		r.Repeat(map[string]func(*rapid.T){
			"turn": func(r *rapid.T) {
				src, before := segno.Source{Session: "session"}, e.tree()
				begun, err := e.site.BeginTurn(e.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "turn"})
				e.must(err)
				kinds := rapid.SampledFrom([]string{"none", "1", "2", "link", "directory", "executable"})
				e.replace(rapid.SampledFrom([]string{"p", "q", "p/x"}).Draw(r, "path"), kinds.Draw(r, "kind"))
				ended, err := e.site.EndTurn(e.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
				e.must(err)
				heads, states = append(heads, ended.ID), append(states, e.tree())
				maps.DeleteFunc(of, func(name string, _ bool) bool { return slices.Contains(differing(before, e.tree()), name) })
			},
			"user": func(r *rapid.T) {
				name := rapid.SampledFrom([]string{"p", "q", "p/x", "p/w", "w"}).Draw(r, "path")
				before := e.tree()
				e.replace(name, rapid.SampledFrom([]string{"none", fmt.Sprint("user ", len(e.of))}).Draw(r, "kind"))
				e.line("u", name) // the next content is another one
				for _, changed := range differing(before, e.tree()) {
					of[changed] = strings.Contains(e.tree()[changed], "user")
				}
			},
			"undo": func(r *rapid.T) {
				p := move(r, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: count(r)})
				if len(p.Forced) > 0 && rapid.Bool().Draw(r, "force") {
					if again := move(r, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: len(p.Turns), Force: true}); again.Finishes != p.Operation {
						r.Fatalf("undo --force undid %v instead of overwriting %v", again.Turns, p.Conflicts)
					}
				}
			},
			"redo":    func(r *rapid.T) { move(r, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: count(r)}) },
			"op undo": func(r *rapid.T) { move(r, timeline.MoveRequest{Verb: segno.VerbOpUndo}) },
			"restore": func(r *rapid.T) {
				if to := rapid.IntRange(0, 4).Draw(r, "to"); to < len(heads) {
					move(r, timeline.MoveRequest{Verb: segno.VerbRestore, To: heads[to], Scope: timeline.ScopeBoth})
					if paths := differing(states[to], e.tree()); len(paths) > 0 {
						r.Fatalf("restore: %v differ", paths)
					}
				}
			},
		})
	})
}
