package hook

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// interrupted returns a scene after a turn that changed files in three ways and was interrupted.
// The agent records an interruption by Esc. The end of its process leaves no record.
func interrupted(t *testing.T, how string) *scene {
	t.Helper()
	c := newScene(t, map[string]string{"notes": "0", "doomed": "precious", "src/lib": "0", "src/made-by-make": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "turn", "by the turn")
	c.runs("p1", "t2", "rm doomed && make", func() { c.remove("doomed"); c.write("src/made-by-make", "1") })
	c.waitForClock()
	if how == "esc" {
		c.interrupt("p1")
	} else {
		c.killAgent()
	}
	c.waitForClock()
	return c
}

// TestEditsAfterAnInterruption checks that edits after an interruption belong to the user,
// regardless of the next event. Undo reverts only the changes of the turn, and an external
// checkpoint separates the two.
func TestEditsAfterAnInterruption(t *testing.T) {
	for _, how := range []string{"esc", "kill"} {
		for _, next := range []string{"undo", "prompt"} {
			t.Run(how+" then "+next, func(t *testing.T) {
				c := interrupted(t, how)
				c.write("notes", "mine")
				c.write("src/mine", "mine")
				c.write("new/mine", "mine")
				c.remove("src/lib")
				turns := 1
				if next == "prompt" {
					c.asks("p2", "two")
					c.stops("p2")
					c.wantHistory("base, 1 one (interrupted), external, 2 two")
					turns = 2
				}
				got := c.undo(turns)
				// Only the directory's time shows that a name was removed, and the turn ran
				// commands.
				c.wantConflicts(got, "src/lib")
				c.wantFiles("doomed=precious new/mine=mine notes=mine src/made-by-make=0 src/mine=mine")
				c.wantNoFailures()
			})
		}
	}
}

// TestOneFileOfTheTurnAndTheUser checks that a file is a conflict if the user edited it after the
// interruption, or if a killed command may have written it last.
func TestOneFileOfTheTurnAndTheUser(t *testing.T) {
	for _, how := range []string{"esc", "kill"} {
		t.Run(how, func(t *testing.T) {
			c := interrupted(t, how)
			c.write("turn", "by the turn, and by me")
			c.wantConflicts(c.undo(1), "turn")
			c.wantFiles("doomed=precious notes=0 src/lib=0 src/made-by-make=0 turn=by the turn, and by me")
			c.wantNoFailures()
		})
	}
	t.Run("kill in mid-command", func(t *testing.T) {
		c := newScene(t, map[string]string{"a": "0", "b": "0"})
		c.asks("p1", "one")
		c.writes("p1", "t1", "a", "1")
		c.begins("p1", "t2", "Bash", map[string]any{"command": "make b; sleep 60"})
		c.waitForClock()
		c.write("b", "by make, or by the user")
		c.killAgent()
		c.wantConflicts(c.undo(1), "b")
		c.wantFiles("a=0 b=by make, or by the user")
		if _, err := c.moves(timeline.MoveRequest{Verb: segno.VerbOpUndo}); err != nil {
			t.Fatal(err)
		}
		c.wantNoFailures()
	})
}

// TestEscInMidCommand checks that undo reverts the changes that a command made before the
// user interrupted it.
func TestEscInMidCommand(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.begins("p1", "t1", "Bash", map[string]any{"command": "rm a; echo gone > gone; sleep 60"})
	c.remove("a")
	c.write("gone", "1")
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
	c.write("mine", "1") // moves the time of the directory that a was in
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 mine=1")
	c.wantNoFailures()
}

// killAgent makes the agent's process id one of an exited process.
func (c *scene) killAgent() {
	c.Helper()
	turns, err := c.place.Spool().Turns(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, t := range turns {
		t.PID, t.PIDStart = 1<<22+1, "0"
		if err := c.place.Spool().SaveTurn(c.Context(), t); err != nil {
			c.Fatal(err)
		}
	}
}

// TestAKilledTurnStaysOnTheLine checks that a killed turn stays on the line. The agent omits the
// interrupted call, so the parent of the next prompt is an older record of the turn. That is not a
// rewind.
func TestAKilledTurnStaysOnTheLine(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.stops("p1")
	c.asks("p2", "two")
	c.writes("p2", "t1", "a", "2")
	c.says("half way")
	before := c.head
	c.says("a call that never came to its end")
	c.killAgent()
	c.waitForClock()
	c.head = before
	c.asks("p3", "three")
	c.stops("p3")
	c.wantHistory("base, 1 one, 2 two (interrupted), 3 three")
	c.wantConflicts(c.undo(2))
	c.wantFiles("a=0")
	c.wantNoFailures()
}
