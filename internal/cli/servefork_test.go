package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentEditsAndForks replaces the prompt of an older turn, which restores the files from before
// that turn, and forks. Both sessions are in the list and continue independently.
func TestAgentEditsAndForks(t *testing.T) {
	e := newEditor(t, "agent", "--session", "one")
	id := e.open("new", "")
	e.say(id, "write a.txt: first")
	if err := os.WriteFile(filepath.Join(e.rig.Project, "mine"), []byte("by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	e.say(id, "write a.txt: second")
	e.say(id, "write b.txt: third")
	list := e.say(id, "/checkpoints").Said()
	for _, want := range []string{"```\n@ ", " t3 ", " t2 ", " t1 ", " t0 "} {
		if !strings.Contains(list, want) {
			t.Errorf("/checkpoints has no %q:\n%s", want, list)
		}
	}
	if said := e.say(id, "/edit 2 write c.txt: instead").Said(); !strings.Contains(said, "undone: now at turn 1") || !strings.Contains(said, "wrote c.txt") {
		t.Errorf("/edit says %q", said)
	}
	if a, b, c, mine := e.file("a.txt"), e.file("b.txt"), e.file("c.txt"), e.file("mine"); a != "first" || b != "" || c != "instead" || mine != "by hand" {
		t.Errorf("after /edit a.txt has %q, b.txt %q, c.txt %q, mine %q", a, b, c, mine)
	}
	if list := e.say(id, "/checkpoints").Said(); !strings.Contains(list, " t4 ") || !strings.Contains(list, " t3 ") {
		t.Errorf("then /checkpoints says\n%s", list)
	}
	if turn, err := e.Prompt(id, "/edit nine words"); err != nil {
		t.Fatal(err)
	} else if _, err := turn.Stop(e.ctx); err == nil || !strings.Contains(err.Error(), "unknown turn") {
		t.Errorf("/edit of no turn: %v", err)
	}

	if said := e.say(id, "/fork two").Said(); !strings.Contains(said, `"two" is a fork of this one at t4`) {
		t.Errorf("/fork says %q", said)
	}
	e.say(id, "remember the port is 1")
	e.say("two", "remember the port is 2")
	e.Kill()
	e.start()
	sessions, err := e.List(e.ctx, e.rig.Project)
	if err != nil || len(sessions) != 2 {
		t.Errorf("the list is %+v, %v", sessions, err)
	}
	for session, port := range map[string]string{"one": "1", "two": "2"} {
		e.open("load", session)
		if said := e.say(session, "recall the port").Said(); !strings.Contains(said, "the port is "+port) {
			t.Errorf("%s says %q", session, said)
		}
	}
}
