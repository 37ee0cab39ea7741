package cli_test

import (
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestALatePromptInASessionThatWasCut undoes a turn, which cuts a session. It prompts that session
// while the workspace is busy, so the spool does not know the thread. The turn is recorded in the
// thread from which the session was cut, and makes no second thread.
func TestALatePromptInASessionThatWasCut(t *testing.T) {
	d := newBench(t)
	d.write("0")
	r := d.session("11111111-0000-4000-8000-000000000001")
	d.turn(r, "one", "1")
	d.turn(r, "two", "2")
	var cut segno.SessionID
	if err := d.hook(forEver, func(rec *timeline.Timeline) error {
		m := rec
		moved, err := m.Move(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
		if err == nil {
			cut = moved.Link.Session
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c := d.session(string(cut))
	if err := c.readParent(0); err != nil {
		t.Fatal(err)
	}
	if err := d.hook(forEver, func(rec *timeline.Timeline) error {
		return rec.Spool.SaveTurn(t.Context(), timeline.OpenTurn{Key: "late", Agent: "claude", Source: d.source(c),
			Workspace: rec.Workspace.ID(), Prompt: "late", Start: d.place.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	d.say(c, "late")
	d.write("3")
	if err := d.end(forEver, c, "late"); err != nil {
		t.Fatal(err)
	}
	d.turn(c, "next", "4")
	if got, want := d.line(c), []string{"t1 one", "t3 late", "t4 next"}; !slices.Equal(got, want) {
		t.Errorf("the line is %q, want %q", got, want)
	}
	d.checkConsistent()
}
