package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// seamWorkspace is a workspace that runs a function while a move writes files.
type seamWorkspace struct {
	segno.Workspace
	apply func(steps []segno.Change, do func([]segno.Change) ([]segno.Conflict, error)) ([]segno.Conflict, error)
}

func (w *seamWorkspace) Apply(ctx context.Context, steps []segno.Change, times segno.Hash) ([]segno.Conflict, error) {
	return w.apply(steps, func(some []segno.Change) ([]segno.Conflict, error) { return w.Workspace.Apply(ctx, some, times) })
}

// whileMoving makes a move during which act happens, after the files are written.
func (g *fixture) whileMoving(ask timeline.MoveRequest, act func()) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		tl.Workspace = &seamWorkspace{tl.Workspace, func(steps []segno.Change, do func([]segno.Change) ([]segno.Conflict, error)) ([]segno.Conflict, error) {
			conflicts, err := do(steps)
			act()
			return conflicts, err
		}}
		_, err := tl.Move(ctx, ask, nil)
		return err
	})
	if err != nil {
		g.Fatalf("%s: %v", ask.Verb, err)
	}
}

// interrupt ends a move after it has written the steps for which written returns true.
func (g *fixture) interrupt(ask timeline.MoveRequest, written func(path string) bool) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		tl.Workspace = &seamWorkspace{tl.Workspace, func(steps []segno.Change, do func([]segno.Change) ([]segno.Conflict, error)) ([]segno.Conflict, error) {
			var some []segno.Change
			for _, s := range steps {
				if written(s.Path) {
					some = append(some, s)
				}
			}
			if _, err := do(some); err != nil {
				return nil, err
			}
			return nil, errKilled
		}}
		_, err := tl.Move(ctx, ask, nil)
		return err
	})
	if err == nil {
		g.Fatal("the move was not interrupted")
	}
}

// makeMove makes a move and fails the test on an error or a conflict.
func (g *fixture) makeMove(ask timeline.MoveRequest) segno.OperationID {
	g.Helper()
	moved, err := g.move(nil, ask)
	if err != nil {
		g.Fatalf("%s: %v", ask.Verb, err)
	}
	if len(moved.Plan.Conflicts) > 0 {
		g.Errorf("%s has the conflicts %v", ask.Verb, moved.Plan.Conflicts)
	}
	return moved.Plan.Operation
}

func (g *fixture) save() {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		_, err := tl.Save(ctx, segno.CheckpointSave, "mine")
		return err
	})
	if err != nil {
		g.Fatalf("save: %v", err)
	}
}

func (g *fixture) wantFiles(when, want string) {
	g.Helper()
	if diff := cmp.Diff(want, g.files()); diff != "" {
		g.Errorf("%s the files are (-want +got)\n%s", when, diff)
	}
}

// waysBack returns the moves that revert an undo of one turn.
func waysBack() map[string]timeline.MoveRequest {
	return map[string]timeline.MoveRequest{
		"op undo": {Verb: segno.VerbOpUndo},
		"redo":    {Verb: segno.VerbRedo, Turns: 1},
	}
}

// TestAnOperationRevertsOnlyWhatItWrote lets the user save, create and delete files while an undo
// writes other files, and change one file that the undo wrote. Neither reverting the undo nor a
// second op undo reverts these changes.
func TestAnOperationRevertsOnlyWhatItWrote(t *testing.T) {
	for name, back := range waysBack() {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.write("mine", "1\n")
			g.write("gone", "1\n")
			g.write("both", "1\n2\n3\n4\n")
			act := func() { g.write("made", "by the turn"); g.write("both", "one\n2\n3\n4\n") }
			if err := g.turn("A", act); err != nil {
				t.Fatal(err)
			}
			g.whileMoving(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, func() {
				g.write("mine", "2\n")
				g.write("new/er", "1\n")
				g.remove("gone")
				g.write("both", "1\n2\n3\nfour\n")
			})
			undone := "both \"1\\n2\\n3\\nfour\\n\"\nmine \"2\\n\"\nnew/\nnew/er \"1\\n\"\n"
			g.wantFiles("after the undo", undone)
			op := g.makeMove(back)
			g.wantFiles("afterwards", "both \"one\\n2\\n3\\nfour\\n\"\nmade \"by the turn\"\nmine \"2\\n\"\nnew/\nnew/er \"1\\n\"\n")
			g.makeMove(timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: op})
			g.wantFiles("after an undo of that", undone)
			g.wantFilesOfHead()
			g.checkStore()
		})
	}
}

// TestARestoreRevertsOnlyWhatItWrote does the same with a restore.
func TestARestoreRevertsOnlyWhatItWrote(t *testing.T) {
	g := newFixture(t)
	g.write("mine", "1\n")
	if err := g.turn("A", func() { g.write("made", "A") }); err != nil {
		t.Fatal(err)
	}
	cs, _ := g.checkpoints()
	if err := g.turn("B", func() { g.write("made", "B"); g.write("more", "B") }); err != nil {
		t.Fatal(err)
	}
	g.whileMoving(timeline.MoveRequest{Verb: segno.VerbRestore, To: cs[len(cs)-1].ID, Scope: timeline.ScopeBoth}, func() {
		g.write("mine", "2\n")
		g.write("new", "1\n")
	})
	g.wantFiles("after the restore", "made \"A\"\nmine \"2\\n\"\nnew \"1\\n\"\n")
	g.makeMove(timeline.MoveRequest{Verb: segno.VerbOpUndo})
	g.wantFiles("after its undo", "made \"B\"\nmine \"2\\n\"\nmore \"B\"\nnew \"1\\n\"\n")
	g.checkStore()
}

// TestAnInterruptedMoveOwnsOnlyItsSteps interrupts an undo. The user then changes other files, one that the undo has
// written, and one that it has not. Another verb completes the undo. The files then have the lines of the user and of
// the undo, and reverting the undo reverts only its own lines.
func TestAnInterruptedMoveOwnsOnlyItsSteps(t *testing.T) {
	for name, back := range waysBack() {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.write("mine", "1\n")
			g.write("gone", "1\n")
			g.write("done", "1\n2\n3\n4\n")
			g.write("left", "1\n2\n3\n4\n")
			err := g.turn("A", func() {
				g.write("done", "one\n2\n3\n4\n")
				g.write("left", "one\n2\n3\n4\n")
				g.write("made", "by the turn")
			})
			if err != nil {
				t.Fatal(err)
			}
			g.interrupt(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, func(path string) bool { return path == "done" })
			g.write("mine", "2\n")
			g.write("new", "1\n")
			g.remove("gone")
			g.write("done", "1\n2\n3\nfour\n")
			g.write("left", "one\n2\n3\nfour\n")
			g.save()
			undone := "done \"1\\n2\\n3\\nfour\\n\"\nleft \"1\\n2\\n3\\nfour\\n\"\nmine \"2\\n\"\nnew \"1\\n\"\n"
			g.wantFiles("after the completion", undone)
			op := g.makeMove(back)
			g.wantFiles("afterwards", "done \"one\\n2\\n3\\nfour\\n\"\nleft \"one\\n2\\n3\\nfour\\n\"\nmade \"by the turn\"\nmine \"2\\n\"\nnew \"1\\n\"\n")
			g.makeMove(timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: op})
			g.wantFiles("after an undo of that", undone)
			g.wantFilesOfHead()
			g.checkStore()
		})
	}
}

func (g *fixture) endIn(key string, session segno.SessionID) {
	g.Helper()
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: segno.Source{Session: session, Dir: g.project}})
		return err
	})
	if err != nil {
		g.Fatalf("end %s: %v", key, err)
	}
}

func (g *fixture) beginIn(key string, session segno.SessionID) {
	g.Helper()
	if err := g.begin(key, segno.Source{Session: session, Dir: g.project}); err != nil {
		g.Fatalf("begin %s: %v", key, err)
	}
}

func (g *fixture) threadOfSession(session segno.SessionID) (id segno.ThreadID) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		for t, err := range s.Threads(ctx, segno.ThreadQuery{Session: session}) {
			if err != nil {
				return err
			}
			id = t.ID
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	return id
}

// tool writes a file in a tool call of an open turn.
func (g *fixture) tool(key, name, content string) {
	g.Helper()
	g.n++
	id := fmt.Sprint("call-", g.n)
	note := func(kind segno.EntryKind, body string) {
		e := segno.Entry{Kind: kind, ID: id, Name: "Write", Time: g.place.Now(), Body: json.RawMessage(body)}
		if err := g.place.Spool().AppendEntry(g.Context(), segno.TurnKey(key), e); err != nil {
			g.Fatal(err)
		}
	}
	note(segno.EntryIntent, fmt.Sprintf(`{"file_path":%q,"content":%q}`, filepath.Join(g.project, name), content))
	g.write(name, content)
	note(segno.EntryResult, `{"response":"ok"}`)
}

// TestAMoveUnderAnOpenTurnTakesNothingFromIt undoes a turn while the next turn of its thread and a turn of another
// thread are open and have written files. When each open turn ends, it has its changes, and an undo of it reverts them.
func TestAMoveUnderAnOpenTurnTakesNothingFromIt(t *testing.T) {
	g := newFixture(t)
	g.write("both", "1\n2\n3\n4\n")
	g.beginIn("other", "two")
	g.endIn("other", "two")
	if err := g.turn("A", func() { g.write("both", "one\n2\n3\n4\n"); g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	g.beginIn("B", "session")
	g.tool("B", "both", "one\n2\n3\nfour\n")
	g.tool("B", "dir/b", "B")
	g.beginIn("C", "two")
	g.tool("C", "c", "C")
	first := g.threadOfSession("session")
	g.makeMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: first, WhileRunning: true})
	g.wantFiles("after the undo", "both \"1\\n2\\n3\\nfour\\n\"\nc \"C\"\ndir/\ndir/b \"B\"\n")
	g.tool("C", "late", "C")
	g.endIn("C", "two")
	g.endIn("B", "session")
	g.undo(timeline.MoveRequest{Thread: first})
	g.wantFiles("after the undo of B", "both \"1\\n2\\n3\\n4\\n\"\nc \"C\"\nlate \"C\"\n")
	g.undo(timeline.MoveRequest{Thread: g.threadOfSession("two")})
	g.wantFiles("after the undo of C", "both \"1\\n2\\n3\\n4\\n\"\n")
	g.checkStore()
}

// TestAnOpenTurnBeginsWithWhatAMoveLeft undoes the turn of another session, which had overwritten a file of the user.
// Another turn, which has not written the file, is open. The file has the user's content again. The open turn then
// deletes it. The undo of that turn lists the file, because the other session's tool named it, too, and restores it
// with force.
func TestAnOpenTurnBeginsWithWhatAMoveLeft(t *testing.T) {
	g := newFixture(t)
	src := segno.Source{Session: "session", Dir: g.project}
	if err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error { // an agent that reports each call
		_, err := tl.BeginTurn(ctx, timeline.Prompt{Key: "B", Agent: "claude", Source: src, Text: "B"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g.write("d", "the user's")
	g.beginIn("C", "two")
	g.tool("C", "d", "C")
	g.endIn("C", "two")
	g.makeMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: g.threadOfSession("two"), WhileRunning: true})
	g.wantFiles("after the undo of C", "d \"the user's\"\n")
	note := func(kind segno.EntryKind, body string) {
		e := segno.Entry{Kind: kind, ID: "rm", Name: "Bash", Time: g.place.Now(), Body: json.RawMessage(body)}
		if err := g.place.Spool().AppendEntry(g.Context(), "B", e); err != nil {
			t.Fatal(err)
		}
	}
	note(segno.EntryIntent, `{"command":"rm d"}`)
	if err := os.Remove(filepath.Join(g.project, "d")); err != nil {
		t.Fatal(err)
	}
	note(segno.EntryResult, `{"response":"ok"}`)
	g.endIn("B", "session")
	ask := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: g.threadOfSession("session")}
	moved, err := g.move(nil, ask)
	if err != nil {
		t.Fatal(err)
	}
	if c := moved.Plan.Conflicts; len(c) != 1 || c[0].Path != "d" {
		t.Errorf("the conflicts are %+v", c)
	}
	ask.Force = true
	if _, err := g.move(nil, ask); err != nil {
		t.Fatal(err)
	}
	g.wantFiles("after the forced undo of B", "d \"the user's\"\n")
	g.checkStore()
}

// TestWhatAnOpenTurnWroteIsInDoubtAfterARestore restores over files that an open turn wrote, and reverts the restore.
// The files still belong to the turn. Its undo lists them, and writes them only with force.
func TestWhatAnOpenTurnWroteIsInDoubtAfterARestore(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	cs, _ := g.checkpoints()
	g.beginIn("B", "session")
	g.write("a", "B")
	g.write("b", "B")
	g.makeMove(timeline.MoveRequest{Verb: segno.VerbRestore, To: cs[len(cs)-1].ID, Scope: timeline.ScopeFiles, WhileRunning: true})
	g.wantFiles("after the restore", "a \"A\"\n")
	g.makeMove(timeline.MoveRequest{Verb: segno.VerbOpUndo, WhileRunning: true})
	g.wantFiles("after its undo", "a \"B\"\nb \"B\"\n")
	g.endIn("B", "session")
	moved, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c := moved.Plan.Conflicts; len(c) != 2 || c[0].Path != "a" || c[1].Path != "b" {
		t.Errorf("the conflicts are %+v", c)
	}
	g.wantFiles("after the undo of B", "a \"B\"\nb \"B\"\n")
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Force: true}); err != nil {
		t.Fatal(err)
	}
	g.wantFiles("after it was forced", "a \"A\"\n")
	g.checkStore()
}

// TestRedoBringsBackOnlyWhatTheUndoTook lets a session delete a file that a turn of another session
// made. An undo of that turn finds no file, and a redo does not restore it, whether the turns are
// undone and redone together or one by one. The redo restores a file that the undo removed.
func TestRedoBringsBackOnlyWhatTheUndoTook(t *testing.T) {
	moves := map[string][2][]int{
		"together":      {{2}, {2}},
		"one by one":    {{1, 1}, {1, 1}},
		"redone singly": {{2}, {1, 1}},
		"undone singly": {{1, 1}, {2}},
	}
	for name, counts := range moves {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.write("start", "0")
			inTwo := func(key, path string) {
				g.beginIn(key, "two")
				g.tool(key, path, key)
				g.endIn(key, "two")
			}
			inTwo("A", "theirs")
			inTwo("B", "own")
			two := g.threadOfSession("two")
			g.beginIn("C", "session")
			g.remove("theirs")
			g.endIn("C", "session")
			for i, verb := range []segno.Verb{segno.VerbUndo, segno.VerbRedo} {
				for _, n := range counts[i] {
					g.makeMove(timeline.MoveRequest{Verb: verb, Turns: n, Thread: two})
				}
				g.wantFiles("after "+string(verb), []string{"start \"0\"\n", "own \"B\"\nstart \"0\"\n"}[i])
			}
			g.checkStore()
		})
	}
}

// TestAPlanDependsOnItsPathsOnly changes files between the preview of an undo and the move. Only a
// change of a path in the plan makes the plan outdated.
func TestAPlanDependsOnItsPathsOnly(t *testing.T) {
	g := newFixture(t)
	g.write("log", "")
	g.write("both", "1\n2\n3\n4\n")
	if err := g.turn("A", func() { g.write("a", "A"); g.write("both", "one\n2\n3\n4\n") }); err != nil {
		t.Fatal(err)
	}
	ask := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}
	moveAfter := func(change func()) error {
		return g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
			seen, err := tl.Preview(ctx, ask)
			if err != nil {
				return err
			}
			change()
			_, err = tl.Move(ctx, ask, seen)
			return err
		})
	}
	if err := moveAfter(func() { g.write("both", "one\n2\n3\nfour\n") }); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("a file of the plan was changed since the preview: %v", err)
	}
	if err := moveAfter(func() { g.write("log", "a line\n"); g.write("new", "1") }); err != nil {
		t.Errorf("other files were changed since the preview: %v", err)
	}
	g.wantFiles("after the undo", "both \"1\\n2\\n3\\nfour\\n\"\nlog \"a line\\n\"\nnew \"1\"\n")
}
