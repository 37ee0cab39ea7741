package local_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// beginAs opens a turn of one of several agents, each in a separate process.
func (g *fixture) beginAs(session, key string, pid int, alive func(timeline.OpenTurn) bool) {
	g.Helper()
	err := g.record(func(s *timeline.Timeline) { s.Alive = alive }, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Text: key, Process: timeline.Process{PID: pid},
			Source: segno.Source{Session: segno.SessionID(session), Dir: g.project}})
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
}

// endAs ends a turn of beginAs.
func (g *fixture) endAs(session, key string, alive func(timeline.OpenTurn) bool) (c *segno.Checkpoint) {
	g.Helper()
	err := g.record(func(s *timeline.Timeline) { s.Alive = alive }, func(ctx context.Context, r *timeline.Timeline) (err error) {
		c, err = r.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test",
			Source: segno.Source{Session: segno.SessionID(session), Dir: g.project}})
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return c
}

// TestAnAgentKilledBesideAnother kills an agent while another agent's turn is open. The other turn
// is still an overlapping one, and its undo keeps the files of the killed agent.
func TestAnAgentKilledBesideAnother(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	killed := 0
	alive := func(t timeline.OpenTurn) bool { return t.PID != killed }
	for _, session := range []string{"one", "two"} { // both threads are known
		g.beginAs(session, "first of "+session, 0, alive)
		g.write("x"+session, "1")
		g.endAs(session, "first of "+session, alive)
	}
	g.beginAs("one", "k1", 1000, alive)
	g.beginAs("two", "k2", 1001, alive)
	g.write("of-one", "precious")
	g.write("of-two", "1")
	killed = 1000
	if c := g.endAs("two", "k2", alive); !c.Shared {
		t.Error("a turn that overlapped another is not marked shared")
	}
	err := g.record(func(s *timeline.Timeline) { s.Alive = alive }, func(ctx context.Context, r *timeline.Timeline) error {
		m := r
		moved, err := m.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
		if err == nil && len(moved.Plan.Conflicts) == 0 {
			t.Error("nobody is told that another's work is in those files")
		}
		return err
	})
	if err != nil && segno.KindOf(err) != segno.KindRefused {
		t.Fatal(err)
	}
	if got := g.files(); got != "a \"0\"\nof-one \"precious\"\nof-two \"1\"\nxone \"1\"\nxtwo \"1\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	g.checkStore()
}

// TestANameInAnotherDirectory undoes one of two overlapping turns with files of the same base name.
// Only the path that the tools of the turn named belongs to it.
func TestANameInAnotherDirectory(t *testing.T) {
	g := newFixture(t)
	g.write("one/main.go", "0")
	g.write("two/main.go", "0")
	g.beginAs("s1", "k1", 0, nil)
	g.beginAs("s2", "k2", 0, nil)
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		body, err := json.Marshal(map[string]string{"file_path": g.project + "/two/main.go"})
		if err != nil {
			return err
		}
		return r.AppendEntry(ctx, "k2", segno.Entry{Kind: segno.EntryIntent, Name: "Edit", ID: "i", Body: body})
	})
	if err != nil {
		t.Fatal(err)
	}
	g.write("one/main.go", "by one")
	g.write("two/main.go", "by two")
	g.endAs("s1", "k1", nil)
	g.endAs("s2", "k2", nil)
	moved := g.undo(timeline.MoveRequest{})
	if c := moved.Plan.Conflicts; len(c) != 1 || c[0].Path != "one/main.go" {
		t.Errorf("the conflicts are %v", c)
	}
	if got := g.files(); got != "one/\none/main.go \"by one\"\ntwo/\ntwo/main.go \"0\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	g.checkStore()
}

// TestAForcedMoveUnderAnOpenTurn undoes a turn by force while the next turn is open. The writes of
// the move do not belong to the open turn, and its undo keeps them.
func TestAForcedMoveUnderAnOpenTurn(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	g.write("b", "0")
	if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	if err := g.begin("B", segno.Source{Session: "session", Dir: g.project}); err != nil {
		t.Fatal(err)
	}
	g.write("b", "B")
	g.undo(timeline.MoveRequest{WhileRunning: true})
	if err := g.end(nil, "B"); err != nil {
		t.Fatal(err)
	}
	cs, head := g.checkpoints()
	for _, c := range cs {
		if c.ID == head.Head && c.Files.Modified > 1 {
			t.Errorf("turn %d is said to have changed %+v", c.Turn, c.Files)
		}
	}
	g.undo(timeline.MoveRequest{})
	if got, want := g.files(), "a \"0\"\n"; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("undo of B brought A's change back:\n%s", got)
	}
	g.wantFilesOfHead()
	g.checkStore()
}

// TestAForcedMoveThatIsCompletedUnderAnOpenTurn permanently fails each operation of a forced undo
// under an open turn, as a kill does. The end of the turn completes the undo, and the writes of the
// undo are not attributed to the turn.
func TestAForcedMoveThatIsCompletedUnderAnOpenTurn(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for n, done := 0, false; !done; n++ {
		g := newFixture(t)
		g.write("a", "0")
		g.write("b", "0")
		if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
			t.Fatal(err)
		}
		if err := g.begin("B", segno.Source{Session: "session", Dir: g.project}); err != nil {
			t.Fatal(err)
		}
		g.write("b", "B")
		faults := faultfs.FailAt(n)
		faults.Forever = true
		_, err := g.move(faults.Wrap(vfs.OS), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, WhileRunning: true})
		if done = !faults.Fired(); done && err != nil {
			t.Fatal(err)
		}
		if err := g.end(nil, "B"); err != nil {
			t.Fatalf("after operation %d: %v", n, err)
		}
		cs, _ := g.checkpoints()
		for _, c := range cs {
			if c.Key == "B" && c.Files != (segno.Counts{}) && c.Files != (segno.Counts{Modified: 1}) {
				t.Errorf("after operation %d failed the turn is said to have changed %+v: %v", n, c.Files, faults.Trace())
			}
		}
		g.checkStore()
	}
}
