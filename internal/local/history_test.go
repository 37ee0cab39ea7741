package local_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// TestAnyHistory executes turns, edits by the user, undo, redo, restore and op undo in random
// order, and compares the result with a model.
func TestAnyHistory(t *testing.T) {
	soak.Rapid(t, 15, 1000)
	rapid.Check(t, func(rt *rapid.T) {
		g := newFixture(t)
		m := &model{fixture: g, rt: rt, files: map[string]string{}}
		m.edit(map[string]string{"a": "0", "d/b": "0"})
		for range rapid.IntRange(2, 7).Draw(rt, "steps") {
			m.step()
			m.checkFiles()
		}
		g.checkStore()
	})
}

// TestAnyHistoryUnderRulesOfAnAgent is like TestAnyHistory, but the agent also writes rules that
// protect a directory. The rules must have no effect.
func TestAnyHistoryUnderRulesOfAnAgent(t *testing.T) {
	soak.Rapid(t, 15, 1000)
	rapid.Check(t, func(rt *rapid.T) {
		g := newFixture(t)
		m := &model{fixture: g, rt: rt, files: map[string]string{}, rules: []string{"d/CACHEDIR.TAG", ".segnoignore"}}
		m.edit(map[string]string{"a": "0", "d/b": "0"})
		for range rapid.IntRange(2, 7).Draw(rt, "steps") {
			m.step()
			m.checkFiles()
		}
		g.checkStore()
	})
}

// model is the expected result of a history.
type model struct {
	*fixture
	rules []string // files that protect d, which an agent writes
	rt    *rapid.T
	files map[string]string // the present files
	line  []modelTurn       // from the base to the head
	ahead []modelTurn       // the turns that redo would restore, next first
	n     int
}

// modelTurn is a turn: the content of each changed path before and after it.
type modelTurn struct {
	number        int
	before, after map[string]string // a missing path does not exist
	paths         []string
	undone        []string // the paths that the last undo of the turn reverted
	id            segno.CommitID
	all           map[string]string // all files at its end
}

var modelPaths = []string{"a", "d/b", "d/c", "e"}

func (m *model) paths() []string { return slices.Concat(modelPaths, m.rules) }

// edit writes files as a user would. An empty content removes the file.
func (m *model) edit(changes map[string]string) {
	for _, p := range slices.Sorted(maps.Keys(changes)) {
		if changes[p] == "" {
			m.remove(p)
			delete(m.files, p)
		} else {
			m.write(p, changes[p])
			m.files[p] = changes[p]
		}
	}
}

func (m *model) draw(who string) map[string]string {
	changes := map[string]string{}
	for range rapid.IntRange(1, 3).Draw(m.rt, "edits") {
		m.n++
		content := ""
		if rapid.IntRange(0, 3).Draw(m.rt, "remove") > 0 {
			content = fmt.Sprintf("%s %d", who, m.n)
		}
		changes[rapid.SampledFrom(modelPaths).Draw(m.rt, "path")] = content
	}
	if who != "agent" || len(m.rules) == 0 {
		return changes
	}
	switch rapid.IntRange(0, 4).Draw(m.rt, "rule") {
	case 0:
		changes["d/CACHEDIR.TAG"] = fmt.Sprintf("Signature: 8a477f597d28d172789f06886806bc55\n# %d\n", m.n)
	case 1:
		changes[".segnoignore"] = fmt.Sprintf("/d/\n# %d\n", m.n)
	case 2:
		changes[rapid.SampledFrom(m.rules).Draw(m.rt, "rule's path")] = ""
	}
	return changes
}

func (m *model) step() {
	switch rapid.IntRange(0, 7).Draw(m.rt, "what") {
	case 0, 1, 2:
		m.turnStep()
	case 3:
		m.edit(m.draw("person"))
	case 4:
		m.undoStep()
	case 5:
		m.redoStep()
	case 6:
		m.restoreStep()
	case 7:
		m.onlyStep()
	}
}

func (m *model) turnStep() {
	before := maps.Clone(m.files)
	m.n++
	if err := m.turn(fmt.Sprintf("turn-%d", m.n), func() { m.edit(m.draw("agent")) }); err != nil {
		m.rt.Fatal(err)
	}
	t := modelTurn{before: before, after: maps.Clone(m.files), all: maps.Clone(m.files)}
	for _, p := range m.paths() {
		if before[p] != m.files[p] {
			t.paths = append(t.paths, p)
		}
	}
	_, head := m.checkpoints()
	t.number, t.id = head.Turn, head.Head
	m.line, m.ahead = append(m.line, t), nil
}

// revert moves the files from the state after a turn to the state before it, and keeps later
// changes by others. It returns the paths that it changed.
func (m *model) revert(from, to map[string]string, paths []string) (changed []string) {
	for _, p := range paths {
		if m.files[p] != from[p] {
			continue
		}
		changed = append(changed, p)
		if to[p] == "" {
			delete(m.files, p)
		} else {
			m.files[p] = to[p]
		}
	}
	return changed
}

func (m *model) undoStep() {
	_, err := m.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if len(m.line) == 0 {
		if segno.KindOf(err) != segno.KindNotFound {
			m.rt.Fatalf("undo of nothing: %v", err)
		}
		return
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	t := m.line[len(m.line)-1]
	t.undone = m.revert(t.after, t.before, t.paths)
	m.line, m.ahead = m.line[:len(m.line)-1], append([]modelTurn{t}, m.ahead...)
}

// redoStep redoes a turn. What a user had reverted before the undo stays as the user left it.
func (m *model) redoStep() {
	_, err := m.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
	if len(m.ahead) == 0 {
		if segno.KindOf(err) != segno.KindNotFound {
			m.rt.Fatalf("redo of nothing: %v", err)
		}
		return
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	t := m.ahead[0]
	m.line, m.ahead = append(m.line, t), m.ahead[1:]
	m.revert(t.before, t.after, t.undone)
}

// restoreStep restores a turn of the line and then undoes the restore.
func (m *model) restoreStep() {
	if len(m.line) == 0 {
		return
	}
	t := rapid.SampledFrom(m.line).Draw(m.rt, "to")
	now := maps.Clone(m.files)
	if _, err := m.move(nil, timeline.MoveRequest{Verb: segno.VerbRestore, To: t.id, Scope: timeline.ScopeBoth}); err != nil {
		m.rt.Fatal(err)
	}
	m.files = maps.Clone(t.all)
	m.checkFiles()
	if _, err := m.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo}); err != nil {
		m.rt.Fatal(err)
	}
	m.files = now
}

// onlyStep undoes one turn of the line alone and then undoes that.
func (m *model) onlyStep() {
	if len(m.line) == 0 {
		return
	}
	t := rapid.SampledFrom(m.line).Draw(m.rt, "only")
	now := maps.Clone(m.files)
	_, err := m.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Only: []int{t.number}})
	if segno.KindOf(err) == segno.KindNotFound { // nothing is left of the turn
		m.revert(t.after, t.before, t.paths)
		if !maps.Equal(now, m.files) {
			m.rt.Fatalf("undo of t%d alone: %v", t.number, err)
		}
		return
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	m.revert(t.after, t.before, t.paths)
	m.checkFiles()
	if _, err := m.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo}); err != nil {
		m.rt.Fatal(err)
	}
	m.files = now
}

// checkFiles compares the project with the model.
func (m *model) checkFiles() {
	got := map[string]string{}
	for _, p := range m.paths() {
		data, err := os.ReadFile(filepath.Join(m.project, p))
		if err == nil {
			got[p] = string(data)
		} else if !os.IsNotExist(err) {
			m.rt.Fatal(err)
		}
	}
	if !maps.Equal(got, m.files) {
		m.rt.Fatalf("the files are %v, want %v", got, m.files)
	}
}
