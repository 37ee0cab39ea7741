package local_test

import (
	"context"
	"os"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestOneKeyInTwoSessions gives turns of two sessions the same key. They are separate turns of two
// threads.
func TestOneKeyInTwoSessions(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	var ends []*segno.Checkpoint
	for _, session := range []string{"one", "two"} {
		g.beginAs(session, "k", 0, nil)
		g.write("of-"+session, "1")
		ends = append(ends, g.endAs(session, "k", nil))
	}
	if ends[1].Amends != "" || ends[1].Thread == ends[0].Thread || ends[1].Turn != 1 {
		t.Errorf("the second session's turn is %+v, the first's %+v", ends[1], ends[0])
	}
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"0\"\nof-one \"1\"\n" {
		t.Errorf("undo of the second left\n%s", got)
	}
	g.checkStore()
}

// TestATurnWithoutASession checks that a turn without a session can neither begin nor end, and that none
// ends without a key: an empty query must not match the turn of another session.
func TestATurnWithoutASession(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	src := segno.Source{Session: "session", Dir: g.project}
	for what, do := range map[string]func(ctx context.Context, r *timeline.Timeline) error{
		"begin without a session": func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.BeginTurn(ctx, timeline.Prompt{Key: "B", Agent: "test", Source: segno.Source{Dir: g.project}, Text: "B"})
			return err
		},
		"end without a session": func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: "A", Agent: "test", Source: segno.Source{Dir: g.project}})
			return err
		},
		"end without a key": func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.EndTurn(ctx, timeline.TurnEnd{Agent: "test", Source: src})
			return err
		},
	} {
		if err := g.record(nil, do); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	g.wantTurns("A")
	if cs, _ := g.checkpoints(); len(cs) != 2 {
		t.Errorf("the thread has %d checkpoints", len(cs))
	}
	g.checkStore()
}

// TestAnEndWithoutABeginning ends a turn whose beginning was not recorded. It is a new turn
// if the session has a prompt or tool calls since the newest turn. Otherwise it is a late end of
// the newest turn.
func TestAnEndWithoutABeginning(t *testing.T) {
	for name, tc := range map[string]struct {
		did  func(c *chat)
		want string
	}{
		"nothing":           {func(*chat) {}, "base, 1 one"},
		"a last line":       {func(c *chat) { c.answer("by the way") }, "base, 1 one"},
		"a prompt":          {func(c *chat) { c.exchange("two") }, "base, 1 one, 2 "},
		"a file":            {func(c *chat) { c.write("a", "2") }, "base, 1 one, 2 "},
		"a call":            {func(c *chat) { c.note("two", segno.Entry{Kind: segno.EntryIntent, ID: "i", Name: "Bash"}) }, "base, 1 one, 2 "},
		"a damaged session": {func(c *chat) { c.damage() }, "base, 1 one, 2 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newFixture(t)
			g.write("a", "0")
			c := g.chat(1)
			thread := c.runTurn("one").Thread
			tc.did(c)
			made := c.ends("two")
			if got := g.summarize(thread).line(t); got != tc.want || (made != nil) != (got != "base, 1 one") {
				t.Errorf("the line is %q, the end made %+v", got, made)
			}
			g.checkStore()
		})
	}
}

// damage appends a malformed line, which may have been a prompt.
func (c *chat) damage() {
	c.Helper()
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("{\"type\":\"us\x00\x00\n"); err != nil {
		c.Fatal(err)
	}
}
