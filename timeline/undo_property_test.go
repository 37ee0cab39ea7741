package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// edited is a directory of text files that turns and a user edit alternately. Each line is
// unique and names the actor that wrote it: "o" for the original text, "t3" for turn 3, "u" for
// the user.
type edited struct {
	*testing.T
	r     *rapid.T // nil outside of property tests
	root  string
	site  *timeline.Timeline
	turns int
	lines int
	done  []editedTurn      // by number, from 1
	cut   map[string]string // lines that are gone → the actor that removed them
	of    map[string]string // lines → the file that contains or contained them
}

func newEdited(t *testing.T, r *rapid.T, home string) *edited {
	e := &edited{T: t, r: r, root: filepath.Join(home, "tree"), cut: map[string]string{}, of: map[string]string{}}
	e.must(os.MkdirAll(e.root, 0o755))
	store := memory.New(time.Now)
	id := segno.WorkspaceID(segno.NewID())
	e.must(store.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: id, Path: e.root}))
	dir, err := workspace.Open(e.root, workspace.Options{ID: id, Objects: store.Objects(), Index: filepath.Join(home, "index")})
	e.must(err)
	sp := spool.New(filepath.Join(home, "spool"), vfs.OS)
	e.site = timeline.Open(timeline.Config{Store: store, Workspace: dir, Spool: sp, Now: time.Now,
		Alive: func(timeline.OpenTurn) bool { return true }})
	for _, name := range []string{"a", "b", "c"} {
		var lines []string
		for range 12 {
			lines = append(lines, e.line("o", name))
		}
		e.write(name, lines)
	}
	return e
}

// checkEdited runs a random test, each time with another directory: 20 times, and 2,000 times if suites are tried whole.
func checkEdited(t *testing.T, f func(*rapid.T, *edited)) {
	base := t.TempDir()
	n := 0
	soak.Rapid(t, 20, 2000)
	rapid.Check(t, func(r *rapid.T) {
		n++
		f(r, newEdited(t, r, filepath.Join(base, fmt.Sprint(n))))
	})
}

func (e *edited) must(err error) {
	e.Helper()
	if err == nil {
		return
	}
	if e.r == nil {
		e.Fatal(err)
	}
	e.r.Fatal(err)
}

func (e *edited) line(actor, file string) string {
	e.lines++
	line := fmt.Sprintf("%s.%d", actor, e.lines)
	e.of[line] = file
	return line
}

func (e *edited) write(name string, lines []string) {
	e.must(os.WriteFile(filepath.Join(e.root, name), []byte(strings.Join(append(lines, ""), "\n")), 0o644))
}

// files returns the lines of each file.
func (e *edited) files() map[string][]string {
	out := map[string][]string{}
	for _, name := range []string{"a", "b", "c"} {
		data, err := os.ReadFile(filepath.Join(e.root, name))
		e.must(err)
		out[name] = strings.Fields(string(data))
	}
	return out
}

// edit changes a few lines as the given actor.
func (e *edited) edit(actor string) {
	for range rapid.IntRange(1, 3).Draw(e.r, actor+" edits") {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(e.r, "file")
		lines := e.files()[name]
		at := rapid.IntRange(0, len(lines)).Draw(e.r, "line")
		end := min(len(lines), at+rapid.IntRange(0, 2).Draw(e.r, "removed"))
		var in []string
		for range rapid.IntRange(0, 2).Draw(e.r, "written") {
			in = append(in, e.line(actor, name))
		}
		for _, gone := range lines[at:end] {
			e.cut[gone] = actor
		}
		e.write(name, slices.Concat(lines[:at], in, lines[end:]))
	}
}

// turn makes one turn of an agent.
func (e *edited) turn() {
	e.turns++
	rec := e.site
	src := segno.Source{Session: "session"}
	before := e.files()
	begun, err := rec.BeginTurn(e.Context(), timeline.Prompt{Agent: "test", Source: src, Text: fmt.Sprint("turn ", e.turns)})
	e.must(err)
	e.edit(fmt.Sprint("t", e.turns))
	e.done = append(e.done, editedTurn{before, e.files()})
	_, err = rec.EndTurn(e.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
	e.must(err)
}

func (e *edited) move(ask timeline.MoveRequest) *timeline.Plan {
	m := e.site
	moved, err := m.Move(e.Context(), ask, nil)
	e.must(err)
	return moved.Plan
}

// TestUndoRevertsItsTurnsOnly undoes turns of random histories of edits. No line by another
// author may be lost, no line that another author removed may return, and nothing of the undone
// turns may remain, except in files that are listed as conflicts, which must not change. A redo of
// some of the turns must bring back these alone. Redo of all and op undo must restore the state.
func TestUndoRevertsItsTurnsOnly(t *testing.T) {
	base := t.TempDir()
	n, merged, conflicts := 0, 0, 0
	soak.Rapid(t, 20, 2000) // each history writes some hundred files durably
	rapid.Check(t, func(r *rapid.T) {
		n++
		e := newEdited(t, r, filepath.Join(base, fmt.Sprint(n)))
		for range rapid.IntRange(1, 4).Draw(r, "turns") {
			if rapid.Bool().Draw(r, "user before") {
				e.edit("u")
			}
			e.turn()
		}
		if rapid.Bool().Draw(r, "user after") {
			e.edit("u")
		}
		before := e.files()
		k := rapid.IntRange(1, e.turns).Draw(r, "undo")
		plan := e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k})
		after := e.files()
		stays := map[string]bool{}
		for _, c := range plan.Conflicts {
			stays[c.Path] = true
			conflicts++
		}
		for _, s := range plan.Steps {
			if s.Merged {
				merged++
			}
		}
		for name := range before {
			if stays[name] {
				if !slices.Equal(before[name], after[name]) {
					r.Fatalf("%s is a conflict and was changed: %q, was %q", name, after[name], before[name])
				}
				continue
			}
			e.check(name, before[name], after[name], e.turns-k)
		}
		switch rapid.IntRange(0, 2).Draw(r, "back") {
		case 2:
			part := rapid.IntRange(1, k).Draw(r, "redo")
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: part}); len(p.Conflicts)+len(plan.Conflicts) > 0 {
				return
			}
			for name, lines := range e.files() {
				e.check(name, before[name], lines, e.turns-k+part)
			}
			if part == k {
				break
			}
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k - part}); len(p.Conflicts) > 0 {
				return
			}
		case 0:
			e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
		case 1:
			if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}); len(p.Conflicts) > 0 {
				return
			}
		}
		if again := e.files(); !maps.EqualFunc(before, again, slices.Equal) {
			r.Fatalf("led back: %q, was %q", again, before)
		}
	})
	t.Logf("%d files merged, %d conflicts", merged, conflicts)
}

// editedTurn has the lines of each file before and after a turn.
type editedTurn struct{ before, after map[string][]string }

// TestUndoOfTurnsAloneMergesAsGit undoes one or two turns of random histories alone, and then some of the newest turns. Each file
// must be what 'git merge-file' makes of it, or a conflict that did not change. A file that already has the state from before the turns
// stays. Redo and op undo must restore the state.
func TestUndoOfTurnsAloneMergesAsGit(t *testing.T) {
	if testing.Short() {
		return // it runs git some hundred times
	}
	base := t.TempDir()
	n, merged, conflicts := 0, 0, 0
	soak.Rapid(t, 12, 2000)
	rapid.Check(t, func(r *rapid.T) {
		n++
		e := newEdited(t, r, filepath.Join(base, fmt.Sprint(n)))
		for range rapid.IntRange(2, 5).Draw(r, "turns") {
			if rapid.IntRange(0, 2).Draw(r, "user before") == 0 {
				e.edit("u")
			}
			e.turn()
		}
		if rapid.Bool().Draw(r, "user after") {
			e.edit("u")
		}
		only := []int{rapid.IntRange(1, e.turns).Draw(r, "only")}
		if other := rapid.IntRange(1, e.turns).Draw(r, "and"); other < only[0] {
			only = append(only, other)
		}
		first := e.files()
		move := func(ask timeline.MoveRequest, turns []int) {
			before := e.files()
			moved, err := e.site.Move(e.Context(), ask, nil)
			if segno.KindOf(err) == segno.KindNotFound { // the turns left no changes
				moved = &timeline.MoveResult{Plan: &timeline.Plan{}}
			} else {
				e.must(err)
			}
			m, c := e.checkMerge(before, moved.Plan, turns)
			merged, conflicts = merged+m, conflicts+c
		}
		move(timeline.MoveRequest{Verb: segno.VerbUndo, Only: only}, only)
		if rapid.Bool().Draw(r, "back") && len(e.operations()) > 0 {
			e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
			if again := e.files(); !maps.EqualFunc(first, again, slices.Equal) {
				r.Fatalf("op undo left %q, was %q", again, first)
			}
			return
		}
		k := rapid.IntRange(1, e.turns).Draw(r, "then undo")
		var newest []int
		for i := range k {
			newest = append(newest, e.turns-i)
		}
		before := e.files()
		move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k}, newest)
		if p := e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}); len(p.Conflicts) > 0 {
			return
		}
		if again := e.files(); !maps.EqualFunc(before, again, slices.Equal) {
			r.Fatalf("redo led to %q, was %q", again, before)
		}
	})
	t.Logf("%d files merged, %d conflicts", merged, conflicts)
}

// operations returns the log of operations.
func (e *edited) operations() (ops []segno.Operation) {
	log := e.site.Store.(segno.Workspaces)
	for op, err := range log.Operations(e.Context(), e.site.Workspace.ID()) {
		e.must(err)
		ops = append(ops, op)
	}
	return ops
}

// checkMerge compares the files after an undo of turns, newest first, with what git merges. before has the files before the
// undo. It returns the numbers of merged files and of conflicts.
func (e *edited) checkMerge(before map[string][]string, plan *timeline.Plan, turns []int) (merged, conflicts int) {
	after := e.files()
	for name, lines := range before {
		if slices.ContainsFunc(plan.Conflicts, func(c segno.Conflict) bool { return c.Path == name }) {
			conflicts++
			if !slices.Equal(lines, after[name]) {
				e.r.Fatalf("%s is a conflict and was changed: %q, was %q", name, after[name], lines)
			}
			continue
		}
		want, n, ok := e.gitUndo(name, lines, turns)
		if !ok {
			e.r.Fatalf("git has a conflict in %s after the undo of %v, and segno none: it had %q, and has %q", name, turns, lines, after[name])
		}
		merged += n
		if !slices.Equal(after[name], want) {
			e.r.Fatalf("%s has %q after the undo of %v, and git merges %q", name, after[name], turns, want)
		}
	}
	return merged, conflicts
}

// gitUndo returns what git makes of a file if it reverts turns, newest first, and the number of merges. It returns false for a conflict,
// unless the file has the state from before the turns already.
func (e *edited) gitUndo(name string, lines []string, turns []int) (want []string, merged int, ok bool) {
	want, oldest, ok := lines, lines, true
	for _, turn := range turns {
		left, found := e.done[turn-1].after[name], e.done[turn-1].before[name]
		if slices.Equal(left, found) {
			continue
		}
		oldest = found
		switch {
		case !ok, slices.Equal(want, found):
		case slices.Equal(want, left):
			want = found
		default:
			merged++
			want, ok = e.gitMerge(want, left, found)
		}
	}
	if !ok && slices.Equal(lines, oldest) {
		return lines, merged, true
	}
	return want, merged, ok
}

// gitMerge merges two versions of a file as git does. It returns false for a conflict.
func (e *edited) gitMerge(ours, base, theirs []string) (merged []string, ok bool) {
	args := []string{"merge-file", "-p"}
	for i, lines := range [][]string{ours, base, theirs} {
		path := filepath.Join(filepath.Dir(e.root), fmt.Sprint("version", i))
		e.must(os.WriteFile(path, []byte(strings.Join(append(slices.Clone(lines), ""), "\n")), 0o644))
		args = append(args, path)
	}
	out, err := exec.Command("git", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return nil, false
	}
	e.must(err)
	return strings.Fields(string(out)), true
}

// check compares a file before and after the undo of the turns after kept.
func (e *edited) check(name string, before, after []string, kept int) {
	undone := func(actor string) bool {
		var n int
		_, err := fmt.Sscanf(actor, "t%d", &n)
		return err == nil && n > kept
	}
	by := func(line string) string { actor, _, _ := strings.Cut(line, "."); return actor }
	for _, line := range before {
		if has := slices.Contains(after, line); has == undone(by(line)) {
			e.r.Fatalf("%s: %s was there before the undo, after it: %v\nbefore %q\nafter %q", name, line, has, before, after)
		}
	}
	for line, actor := range e.cut {
		if e.of[line] == name && undone(actor) && !undone(by(line)) && !slices.Contains(after, line) {
			e.r.Fatalf("%s: %s was removed by %s and did not come back\nbefore %q\nafter %q", name, line, actor, before, after)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) && !undone(e.cut[line]) {
			e.r.Fatalf("%s: %s came back, which %s removed\nbefore %q\nafter %q", name, line, e.cut[line], before, after)
		}
	}
}

// failing is a workspace whose Apply fails at one call.
type failing struct {
	*workspace.Dir
	left int
}

var errInterrupted = errors.New("interrupted")

func (f *failing) Apply(ctx context.Context, steps []segno.Change, times segno.Hash) ([]segno.Conflict, error) {
	if f.left--; f.left == 0 {
		return nil, errInterrupted
	}
	return f.Dir.Apply(ctx, steps, times)
}

// TestAnInterruptedMergeIsCompleted interrupts an undo that merges a file, before each of its
// writes. The next command must complete it. By then, the merged content, which no checkpoint
// contains yet, is durable. Unusual file names must be those that were planned.
func TestAnInterruptedMergeIsCompleted(t *testing.T) {
	const odd = "caf\xe9\n"
	for _, at := range []int{1, 2} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			e := newEdited(t, nil, t.TempDir())
			write := func(name, content string) {
				e.must(os.WriteFile(filepath.Join(e.root, name), []byte(content), 0o644))
			}
			write(odd, "1\n2\n3\n4\n5\n")
			write("plain", "0\n")
			rec := e.site
			src := segno.Source{Session: "session"}
			begun, err := rec.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "change"})
			e.must(err)
			write(odd, "1\nTWO\n3\n4\n5\n")
			write("plain", "1\n")
			_, err = rec.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
			e.must(err)
			write(odd, "1\nTWO\n3\n4\nfive\n")

			broken := e.site
			broken.Workspace = &failing{e.site.Workspace.(*workspace.Dir), at}
			m := broken
			if _, err := m.Move(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil); !errors.Is(err, errInterrupted) {
				t.Fatalf("the undo ended with %v", err)
			}
			_, err = e.site.CompletePending(t.Context())
			e.must(err)
			for name, want := range map[string]string{odd: "1\n2\n3\n4\nfive\n", "plain": "0\n"} {
				if got, err := os.ReadFile(filepath.Join(e.root, name)); err != nil || string(got) != want {
					t.Errorf("interrupted at write %d: %q has %q, want %q (%v)", at, name, got, want, err)
				}
			}
		})
	}
}
