package local_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// threeTurns returns a thread whose turns make every kind of change.
func threeTurns(t testing.TB) (g *fixture, states []string) {
	g = newFixture(t)
	g.write("a", "0")
	g.write("d/b", "0")
	g.write("held/f", "0")
	states = append(states, g.files())
	acts := []func(){
		func() { g.write("a", "1"); g.write("new/x", "1") },
		func() {
			g.remove("d")
			g.write("d", "a file now")
			g.write("a", "2")
			g.write("held/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n") // the directory stays saved
			g.write("held/f", "2")
		},
		func() { g.remove("new"); g.write("e", "3") },
	}
	for i, act := range acts {
		if err := g.turn(string(rune('A'+i)), act); err != nil {
			t.Fatal(err)
		}
		states = append(states, g.files())
	}
	return g, states
}

// TestEveryFailureOfAMove fails disk operations of an undo of two turns, once and permanently, as a full disk would. The
// undo returns the error. The next command finds the old state or completes the new one. The store is consistent and the
// files equal the head. By default it tries a sample of the operations, each in one of the two ways.
func TestEveryFailureOfAMove(t *testing.T) {
	failEveryOperation(t, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}, "")
}

// TestEveryFailureOfAnUndoOfOneTurn is TestEveryFailureOfAMove for an undo of an old turn alone.
func TestEveryFailureOfAnUndoOfOneTurn(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	failEveryOperation(t, undoOfSecond, withoutSecond)
}

// undoOfSecond undoes the second turn of threeTurns alone, and withoutSecond has the files then.
var undoOfSecond = timeline.MoveRequest{Verb: segno.VerbUndo, Only: []int{2}}

const withoutSecond = "a \"1\"\nd/\nd/b \"0\"\ne \"3\"\nheld/\nheld/f \"0\"\n"

// failEveryOperation fails the disk operations of an undo in threeTurns. want has the files after it; "" stands for the state
// after the first turn.
func failEveryOperation(t *testing.T, undo timeline.MoveRequest, want string) {
	complete := faultfs.FailAt(-1)
	g, states := threeTurns(t)
	if want == "" {
		want = states[1]
	}
	if _, err := g.move(complete.Wrap(vfs.OS), undo); err != nil {
		t.Fatal(err)
	}
	for i, n := range faultfs.Sample(t, complete.Trace()) {
		modes := []bool{false, true}
		if !soak.IsWhole() {
			modes = modes[i%2:][:1]
		}
		for _, forever := range modes {
			g, states := threeTurns(t)
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			// The number of operations differs by a few between runs, so the last ones may not exist in this run.
			_, err := g.move(faults.Wrap(vfs.OS), undo)
			if hasFailed := faults.Fired() && (forever || !isRepaired(faults.Trace()[n])); (err != nil) != hasFailed {
				t.Fatalf("operation %d of %v: %v", n, faults.Trace(), err)
			}
			g.runNextCommand()
			if got := g.files(); got != want && got != states[3] {
				t.Fatalf("after operation %d of %v the files are\n%s", n, faults.Trace(), got)
			}
			g.wantFilesOfHead()
			g.checkStore()
			if g.files() == states[3] {
				if _, err := g.move(nil, undo); err != nil {
					t.Fatalf("after operation %d failed, trying again: %v", n, err)
				}
			}
			if g.files() != want {
				t.Fatalf("after operation %d the undo cannot be had", n)
			}
		}
	}
}

// isRepaired reports whether segno continues after one failure of an operation: if it cannot change the time of the index of
// the last scan, it writes the index again.
func isRepaired(op string) bool {
	return strings.HasPrefix(op, "chtimes: ") && !strings.Contains(op, ".segno-apply-")
}

// TestEveryFailureOfATurnsEnd fails each disk operation of EndTurn. The turn is not lost: the next
// call of EndTurn records it once.
func TestEveryFailureOfATurnsEnd(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		g := newFixture(t)
		g.write("a", "0")
		faults := faultfs.FailAt(n)
		src := segno.Source{Session: "session", Dir: g.project}
		if err := g.begin("A", src); err != nil {
			t.Fatal(err)
		}
		g.write("a", "1")
		err := g.end(faults.Wrap(vfs.OS), "A")
		done = !faults.Fired()
		if err == nil && !done && !isRepaired(faults.Trace()[n]) {
			t.Fatalf("operation %d failed and nobody said so: %v", n, faults.Trace()[n])
		}
		if err != nil {
			if err := g.end(nil, "A"); err != nil {
				t.Fatalf("after operation %d failed (%s): %v", n, faults.Trace()[n], err)
			}
		}
		cs, head := g.checkpoints()
		turns := 0
		for _, c := range cs {
			if c.Kind == segno.CheckpointTurn && c.Amends == "" {
				turns++
			}
		}
		if turns != 1 || head.Turn != 1 {
			t.Fatalf("after operation %d failed the thread has %d turns: %+v", n, turns, cs)
		}
		g.wantFilesOfHead()
		g.checkStore()
	}
}
