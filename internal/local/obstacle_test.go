package local_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

var errKilled = errors.New("killed")

// record calls do as one hook of the project would.
func (g *fixture) record(change func(*timeline.Timeline), do func(ctx context.Context, r *timeline.Timeline) error) error {
	return g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		if change != nil {
			change(tl)
		}
		return do(ctx, tl)
	})
}

// turns returns the prompts of the thread's turns, oldest first. It lists an amended turn once.
func (g *fixture) turns() (prompts []string) {
	g.Helper()
	cs, _ := g.checkpoints()
	for _, c := range cs {
		if c.Kind == segno.CheckpointTurn && c.Amends == "" {
			prompts = append(prompts, c.Prompt)
		}
	}
	return prompts
}

// wantTurns checks which turns the thread has.
func (g *fixture) wantTurns(want string) {
	g.Helper()
	got := ""
	for _, p := range g.turns() {
		got += p
	}
	if got != want {
		g.Errorf("the turns are %q, want %q", got, want)
	}
}

// undo undoes the newest turn and fails the test on an error.
func (g *fixture) undo(ask timeline.MoveRequest) *timeline.MoveResult {
	g.Helper()
	ask.Verb, ask.Turns = segno.VerbUndo, 1
	moved, err := g.move(nil, ask)
	if err != nil {
		g.Fatalf("undo: %v", err)
	}
	return moved
}

// dyingStore is a store whose process is killed after some commits.
type dyingStore struct {
	*sqlite.Store
	left int
}

func (m *dyingStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if m.left == 0 {
		return segno.Head{}, errKilled
	}
	m.left--
	return m.Store.Commit(ctx, c)
}

// failingWorkspace is a workspace on a disk that cannot be written.
type failingWorkspace struct{ segno.Workspace }

func (failingWorkspace) Apply(context.Context, []segno.Change, segno.Hash) ([]segno.Conflict, error) {
	return nil, errors.New("read-only file system")
}

// failingSpool is a journal whose process is killed before it clears a plan.
type failingSpool struct{ timeline.Spool }

func (failingSpool) ClearPlan(context.Context, segno.WorkspaceID) error { return errKilled }

// TestATurnOpenedWithoutItsThread ends a turn whose beginning found a busy workspace. The spool has
// neither its thread nor its parent. EndTurn resolves both.
func TestATurnOpenedWithoutItsThread(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	src := segno.Source{Session: "session", Dir: g.project}
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		rec, err := s.Register(ctx, g.project)
		if err != nil {
			return err
		}
		return tl.Spool.SaveTurn(ctx, timeline.OpenTurn{Key: "B", Agent: "test", Source: src, Workspace: rec.ID,
			Prompt: "B", Before: rec.State.Snapshot, Start: g.place.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	g.write("a", "2")
	if err := g.end(nil, "B"); err != nil {
		t.Fatalf("end: %v", err)
	}
	if err := g.turn("C", func() { g.write("a", "3") }); err != nil {
		t.Fatalf("the next turn: %v", err)
	}
	g.wantTurns("ABC")
	g.wantFilesOfHead()
	g.undo(timeline.MoveRequest{})
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"1\"\n" {
		t.Errorf("undo of both left\n%s", got)
	}
	g.checkStore()
}

// TestATurnThatCannotBeClosed leaves a turn open whose session id is invalid and whose agent has
// exited. Turns and moves of other sessions succeed.
func TestATurnThatCannotBeClosed(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	odd := segno.Source{Session: "a;b", Dir: g.project}
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.BeginTurn(ctx, timeline.Prompt{Key: "H", Agent: "claude", Source: odd, Text: "x", Process: timeline.Process{PID: 99999999}})
		return err
	})
	if err != nil && segno.KindOf(err) != segno.KindInvalid {
		t.Fatal(err)
	}
	if err := g.turn("B", func() { g.write("a", "2") }); err != nil {
		t.Fatalf("the next turn: %v", err)
	}
	g.wantTurns("AB")
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"1\"\n" {
		t.Errorf("undo left\n%s", got)
	}
	g.checkStore()
}

// TestAnInterruptedMoveKeepsNewerTurns interrupts an undo and records turns while the disk cannot be written. In the
// meantime, the user's save is refused. Once the disk can be written, the undo is completed. The newer turns and their
// files stay, undo and redo reach them, and the log has the undo.
func TestAnInterruptedMoveKeepsNewerTurns(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	for _, key := range []string{"A", "B"} {
		if err := g.turn(key, func() { g.write("a", key) }); err != nil {
			t.Fatal(err)
		}
	}
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		tl.Workspace = failingWorkspace{tl.Workspace}
		_, err := tl.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
		return err
	})
	if err == nil {
		t.Fatal("an undo on a disk that cannot be written says nothing")
	}
	src := segno.Source{Session: "session", Dir: g.project}
	full := func(s *timeline.Timeline) { s.Workspace = failingWorkspace{s.Workspace} }
	for name, save := range map[string]func(ctx context.Context, r *timeline.Timeline) (*segno.Checkpoint, error){
		"save": func(ctx context.Context, r *timeline.Timeline) (*segno.Checkpoint, error) {
			return r.Save(ctx, segno.CheckpointSave, "")
		},
		"save of an agent": func(ctx context.Context, r *timeline.Timeline) (*segno.Checkpoint, error) {
			return r.SaveAgent(ctx, timeline.AgentSave{})
		},
	} {
		err := g.record(full, func(ctx context.Context, r *timeline.Timeline) error { _, err := save(ctx, r); return err })
		if err == nil || !strings.Contains(err.Error(), "complete the interrupted undo") {
			t.Errorf("%s over a half-made undo: %v", name, err)
		}
	}
	for _, key := range []string{"C", "D"} {
		// the errors report the interrupted move, but the turns are recorded
		_ = g.record(full, func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Source: src, Text: key})
			return err
		})
		g.write("c", key)
		_ = g.record(full, func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: src})
			return err
		})
	}
	_ = g.begin("E", src) // the disk can be written again
	g.wantTurns("ABCD")
	if got := g.files(); got != "a \"A\"\nc \"D\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	if err := g.end(nil, "E"); err != nil {
		t.Fatal(err)
	}
	g.undo(timeline.MoveRequest{})
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"A\"\nc \"C\"\n" {
		t.Errorf("undo of E and D left\n%s", got)
	}
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 2}); err != nil {
		t.Errorf("redo: %v", err)
	}
	if got := g.files(); got != "a \"A\"\nc \"D\"\n" {
		t.Errorf("redo of both left\n%s", got)
	}
	g.checkStore()
}

// TestACommittedMoveIsNotAppliedAgain kills an undo after its commit and before its plan is cleared.
// The undo is not applied again to files that the user makes afterwards.
func TestACommittedMoveIsNotAppliedAgain(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("n", "made by A") }); err != nil {
		t.Fatal(err)
	}
	_ = g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		tl.Spool = failingSpool{tl.Spool}
		_, err := tl.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
		return err
	})
	if got := g.files(); got != "a \"0\"\n" {
		t.Fatalf("the undo left\n%s", got)
	}
	g.write("n", "made by A") // the user wants the file after all
	if err := g.turn("B", func() { g.write("b", "1") }); err != nil {
		t.Fatal(err)
	}
	if got := g.files(); got != "a \"0\"\nb \"1\"\nn \"made by A\"\n" {
		t.Errorf("after the next turn the files are\n%s", got)
	}
	g.wantFilesOfHead()
	g.checkStore()
}

// TestAStopAfterAnInterruption ends a turn twice, with Stop and as interrupted, in both orders. The
// turn is recorded as ended by Stop.
func TestAStopAfterAnInterruption(t *testing.T) {
	for _, first := range []bool{true, false} {
		g := newFixture(t)
		g.write("a", "0")
		src := segno.Source{Session: "session", Dir: g.project}
		if err := g.begin("A", src); err != nil {
			t.Fatal(err)
		}
		g.write("a", "1")
		for _, interrupted := range []bool{first, !first} {
			err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
				_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: "A", Agent: "test", Source: src, Interrupted: interrupted, Message: "bye"})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		cs, head := g.checkpoints()
		for _, c := range cs {
			if c.ID == head.Head && (c.Interrupted || c.Turn != 1) {
				t.Errorf("interrupted first %v: the head is turn %d, interrupted %v", first, c.Turn, c.Interrupted)
			}
		}
		g.wantTurns("A")
		g.checkStore()
	}
}

// TestAKilledBridge kills EndTurn between the commits of an external checkpoint and of the turn,
// and changes a file before the next call. The turn is recorded, with the objects that only the
// second call has.
func TestAKilledBridge(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	cs, _ := g.checkpoints()
	src := segno.Source{Session: "session", Dir: g.project}
	if err := g.begin("B", src); err != nil {
		t.Fatal(err)
	}
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		turns, err := tl.Spool.Turns(ctx)
		if err != nil {
			return err
		}
		turns[0].Parent = cs[0].ID // the user had rewound the conversation to before A
		return tl.Spool.SaveTurn(ctx, turns[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	g.write("a", "2")
	err = g.record(func(s *timeline.Timeline) { s.Store = &dyingStore{s.Store.(*sqlite.Store), 1} }, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: "B", Agent: "test", Source: src})
		return err
	})
	if !errors.Is(err, errKilled) {
		t.Fatalf("the end was not killed: %v", err)
	}
	g.write("a", "something new that no object holds")
	if err := g.end(nil, "B"); err != nil {
		t.Fatalf("the end again: %v", err)
	}
	if err := g.turn("C", func() { g.write("a", "3") }); err != nil {
		t.Fatalf("the next turn: %v", err)
	}
	g.wantTurns("ABC")
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"something new that no object holds\"\n" {
		t.Errorf("undo of C left\n%s", got)
	}
	g.checkStore()
}
