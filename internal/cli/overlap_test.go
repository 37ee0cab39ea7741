package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAgentTakesOnePromptAfterTheOther sends prompts to a session during a turn. They wait for the
// end of the turn, and a cancel ends all of them. Other sessions do not wait.
func TestAgentTakesOnePromptAfterTheOther(t *testing.T) {
	e := newEditor(t, "agent")
	id, other := e.open("new", ""), e.open("new", "")
	e.pipes("begun", "wait")
	prompts := func(texts ...string) (ended func() []string) {
		t.Helper()
		var stops []func() string
		for i, text := range texts {
			turn, err := e.Prompt(id, text)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				e.await("begun")
			}
			stops = append(stops, func() string {
				stop, err := turn.Stop(e.ctx)
				if err != nil {
					t.Errorf("%q: %v", text, err)
				}
				return stop.Reason
			})
		}
		if said := e.say(other, "say hi").Said(); said != "hi" {
			t.Errorf("another session says %q", said)
		}
		return func() (all []string) {
			for _, stop := range stops {
				all = append(all, stop())
			}
			return all
		}
	}
	ends := func(got []string, want string) {
		t.Helper()
		for i := range got {
			if got[i] != want {
				t.Errorf("prompt %d ended with %q, want %q", i+1, got[i], want)
			}
		}
	}

	ended := prompts("run echo one >> ledger; echo > begun; cat wait", "run echo two >> ledger", "run echo three >> ledger")
	wait := filepath.Join(e.rig.Project, "wait")
	released := make(chan error, 1)
	go func() { released <- os.WriteFile(wait, nil, 0) }()
	ends(ended(), "end_turn")
	if f, err := os.OpenFile(wait, os.O_RDWR, 0); err != nil || <-released != nil { // a reader may be missing
		t.Fatal(err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := e.file("ledger"); got != "one\ntwo\nthree\n" {
		t.Errorf("the ledger has %q", got)
	}

	ended = prompts("run echo > begun; cat wait", "run echo no >> ledger", "run echo nor this >> ledger")
	if err := e.Cancel(id); err != nil {
		t.Fatal(err)
	}
	ends(ended(), "cancelled")
	if said := e.say(id, "say done").Said(); said != "done" || e.file("ledger") != "one\ntwo\nthree\n" {
		t.Errorf("then it says %q; the ledger has %q", said, e.file("ledger"))
	}
	for _, p := range e.Problems() {
		t.Error(p)
	}
}
