package local_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// stepClock changes the clock of the machine, as a user or a time server does.
func (g *fixture) stepClock(by time.Duration) {
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(by) }
}

// mustTurn records a turn that writes one file.
func (g *fixture) mustTurn(key, name, content string) {
	g.Helper()
	if err := g.turn(key, func() { g.write(name, content) }); err != nil {
		g.Fatal(err)
	}
}

// TestOpUndoAfterTheClockSteppedBack undoes an operation beside a newer turn, which has an earlier time than the operation. It is
// refused, because the conversation would move away from the turn while its files stay.
func TestOpUndoAfterTheClockSteppedBack(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	g.mustTurn("A", "a", "A")
	g.mustTurn("B", "a", "B")
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	g.stepClock(-time.Hour)
	g.mustTurn("C", "c", "C")
	_, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo})
	if segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), "t3 came after it") {
		t.Errorf("op undo: %v", err)
	}
	if got := g.files(); got != "a \"A\"\nc \"C\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	g.wantFilesOfHead()
}

// TestRedoAfterTheClockSteppedBack undoes two turns at once and redoes one after the other. The undo has an earlier time than the
// turns.
func TestRedoAfterTheClockSteppedBack(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	g.mustTurn("A", "a", "A")
	g.mustTurn("B", "b", "B")
	g.stepClock(-time.Hour)
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
	for _, want := range []string{"a \"A\"\n", "a \"A\"\nb \"B\"\n"} {
		g.mustMove(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
		if got := g.files(); got != want {
			t.Errorf("the files are\n%s, want\n%s", got, want)
		}
		g.wantFilesOfHead()
	}
	g.checkStore()
}

// TestAnyHistoryWhileTheClockSteps is like TestAnyHistory, but the clock steps between the actions. No result may depend on it.
func TestAnyHistoryWhileTheClockSteps(t *testing.T) {
	soak.Rapid(t, 10, 1000)
	rapid.Check(t, func(rt *rapid.T) {
		g := newFixture(t)
		m := &model{fixture: g, rt: rt, files: map[string]string{}}
		m.edit(map[string]string{"a": "0", "d/b": "0"})
		for range rapid.IntRange(2, 7).Draw(rt, "steps") {
			g.stepClock(time.Duration(rapid.IntRange(-3, 1).Draw(rt, "hours")) * time.Hour)
			m.step()
			m.checkFiles()
		}
		g.checkStore()
	})
}
