package local_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTurnsWithOneKeyAreKept keeps a session in which two prompts have the same id. Claude Code writes this if the user queues
// a message while hooks run at the end of a turn.
func TestTurnsWithOneKeyAreKept(t *testing.T) {
	for _, together := range []bool{true, false} {
		p := writeSessions(t, 1, 3)
		text := transcriptOf(sessionID(0), "/srv/project-0", 3)
		id := `"promptId":"p-` + sessionID(0)
		text = strings.ReplaceAll(text, id+`-u2"`, id+`-u1"`)
		lines := strings.SplitAfter(text, "\n")
		store, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		turns := 0
		steps := []string{text}
		if !together {
			steps = []string{strings.Join(lines[:4], ""), text}
		}
		for _, s := range steps {
			if err := os.WriteFile(pathOf(p, 0), []byte(s), 0o600); err != nil {
				t.Fatal(err)
			}
			k, err := store.SessionTimeline().KeepSession(t.Context(), requestFor(0))
			if err != nil {
				t.Fatal(together, err)
			}
			turns += k.Turns
		}
		if turns != 3 {
			t.Errorf("together is %t: kept %d turns", together, turns)
		}
	}
}

// TestTurnsWithOneKeyAreAdopted records a turn in a session whose two earlier turns have the same id, which may also be that of
// the recorded turn.
func TestTurnsWithOneKeyAreAdopted(t *testing.T) {
	for _, key := range []string{"three", "queued"} {
		g := newFixture(t)
		g.write("a", "0")
		c := g.chat(1)
		for _, text := range []string{"one", "two"} {
			c.writes("user", fmt.Sprintf(`"promptId":"queued","permissionMode":"default","message":{"role":"user","content":%q},`, text))
			c.answer("done: " + text)
		}
		made := c.runTurn(key)
		if made == nil {
			t.Fatalf("a turn with the id %s is not recorded", key)
		}
		if got, want := g.summarize(made.Thread).line(t), "base, 1 one, 2 two, external, 3 "+key; got != want {
			t.Errorf("the line is %q, want %q", got, want)
		}
		g.checkStore()
	}
}
