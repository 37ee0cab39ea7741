package local_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

const requester = "an agent"

// requested returns a thread with the turns A and B and the open turn C, which has requested the undo of B.
func requested(t testing.TB) (g *fixture, q *timeline.Requested) {
	t.Helper()
	g = newFixture(t)
	g.write("a", "0")
	for i, key := range []string{"A", "B"} {
		if err := g.turn(key, func() { g.write("a", string(rune('1'+i))) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.begin("C", segno.Source{Session: "session", Dir: g.project}); err != nil {
		t.Fatal(err)
	}
	g.write("c", "by the turn")
	q, err := g.request("op", timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if err != nil {
		t.Fatal(err)
	}
	return g, q
}

func (g *fixture) request(id segno.OperationID, ask timeline.MoveRequest) (q *timeline.Requested, err error) {
	err = g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		if ask.Thread, err = tl.CurrentThread(ctx); err != nil {
			return err
		}
		ask.Operation = id
		q, err = tl.WithActor(requester).RequestMove(ctx, ask)
		return err
	})
	return q, err
}

// endTurn ends the turn C, and returns the messages for the user.
func (g *fixture) endTurn(fsys vfs.FS, interrupted bool) (told string, err error) {
	src := segno.Source{Session: "session", Dir: g.project}
	err = g.withTimeline(fsys, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		_, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: "C", Agent: "test", Source: src, Interrupted: interrupted, Warn: func(text string) { told += text + "\n" }})
		return err
	})
	return told, err
}

// waiting returns the moves that wait, and the operations of the log.
func (g *fixture) waiting() (waiting []timeline.Requested, ops []segno.Operation) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) (err error) {
		if waiting, err = tl.Spool.ListRequested(ctx, tl.Workspace.ID()); err != nil {
			return err
		}
		for op, err := range s.Operations(ctx, tl.Workspace.ID()) {
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	return waiting, ops
}

const (
	filesOfA = "a \"1\"\n"
	filesOfC = "a \"2\"\nc \"by the turn\"\n"
)

// TestARequestedMoveIsMadeOnceWhenItsTurnEnds undoes the turn that was the newest at the request, and the turn that asked.
func TestARequestedMoveIsMadeOnceWhenItsTurnEnds(t *testing.T) {
	g, q := requested(t)
	if q.String() != "undo t2" || q.Actor != requester {
		t.Errorf("requested %+v", q)
	}
	if again, err := g.request("op", timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err != nil || !again.Time.Equal(q.Time) {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	if _, err := g.request("other", timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}); segno.KindOf(err) != segno.KindConflict || segno.HintOf(err) == "" {
		t.Errorf("another request: %v", err)
	}
	if _, err := g.request("redo", timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}); err == nil {
		t.Error("a redo was accepted, although the open turn begins a new line")
	}
	if got := g.files(); got != filesOfC {
		t.Fatalf("the files changed before the turn ended:\n%s", got)
	}
	told, err := g.endTurn(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told, "'undo t2', which an agent requested") {
		t.Errorf("the user was told %q", told)
	}
	if got := g.files(); got != filesOfA {
		t.Errorf("the files are\n%s", got)
	}
	waiting, ops := g.waiting()
	if len(waiting) != 0 || len(ops) != 1 || ops[0].ID != "op" || ops[0].Actor != requester {
		t.Errorf("waiting are %+v, the log has %+v", waiting, ops)
	}
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Operation: "op"}); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("the operation was repeated: %v", err)
	}
	// A process ended before it removed the request.
	if err := g.place.Spool().KeepRequested(t.Context(), *q); err != nil {
		t.Fatal(err)
	}
	err = g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		return tl.CancelRequested(ctx, *q)
	})
	if segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a move that was made is cancelled: %v", err)
	}
	g.runNextCommand()
	if waiting, ops := g.waiting(); len(waiting) != 0 || len(ops) != 1 || g.files() != filesOfA {
		t.Errorf("waiting are %+v, the log has %+v, the files are\n%s", waiting, ops, g.files())
	}
	g.wantFilesOfHead()
	g.checkStore()
}

// TestARequestKeepsTheWholeMove refuses what a requested move could not keep: it would undo the newer turns, too, or write
// paths that the user did not choose.
func TestARequestKeepsTheWholeMove(t *testing.T) {
	g, q := requested(t)
	if err := g.place.Spool().ClearRequested(t.Context(), *q); err != nil {
		t.Fatal(err)
	}
	undo := func(change func(*timeline.MoveRequest)) timeline.MoveRequest {
		ask := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}
		change(&ask)
		return ask
	}
	for name, ask := range map[string]timeline.MoveRequest{
		"one turn alone": undo(func(ask *timeline.MoveRequest) { ask.Turns, ask.Only = 0, []int{1} }),
		"parts":          undo(func(ask *timeline.MoveRequest) { ask.Parts = map[string][]int{"a": {0}} }),
		"checkpoints":    undo(func(ask *timeline.MoveRequest) { ask.Steps = true }),
		"a point":        {Verb: segno.VerbRestore, Scope: timeline.ScopeFiles, To: "x", Point: 1},
	} {
		if got, err := g.request("op", ask); segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if waiting, _ := g.waiting(); len(waiting) != 0 {
		t.Errorf("waiting are %+v", waiting)
	}
}

// TestARequestOutlivesOtherTurns closes the turn of an agent that has exited, while another one requests a move. The request
// waits for the turn of its own thread.
func TestARequestOutlivesOtherTurns(t *testing.T) {
	g, q := requested(t)
	spool := g.place.Spool()
	turns, err := spool.Turns(t.Context())
	if err == nil {
		err = spool.ClearRequested(t.Context(), *q)
	}
	if err != nil {
		t.Fatal(err)
	}
	gone := turns[0]
	gone.Key, gone.Source.Session, gone.Thread, gone.PID, gone.Start = "gone", "another", "", 99999999, gone.Start.Add(-time.Hour)
	if err := spool.SaveTurn(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	again, err := g.request("op", timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if err != nil || again.Key != "C" {
		t.Fatalf("requested %+v, %v", again, err)
	}
}

// TestARequestDuringATurnOfAGoAgent is refused as long as that turn is open: such a turn ends by itself in steps.
func TestARequestDuringATurnOfAGoAgent(t *testing.T) {
	g, q := requested(t)
	if _, err := g.endTurn(nil, false); err != nil {
		t.Fatal(err)
	}
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		return tl.BeginSteps(ctx, timeline.OpenTurn{Key: "steps", Agent: "go", Thread: q.Thread, Process: timeline.Process{PID: os.Getpid()}})
	})
	if err != nil {
		t.Fatal(err)
	}
	var open *timeline.TurnOpenError
	if _, err := g.request("later", timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); segno.KindOf(err) != segno.KindRefused || !errors.As(err, &open) {
		t.Errorf("a request during the turn: %v", err)
	}
}

// TestARequestedMoveIsDropped when the user decides otherwise: nothing moves then, and the user learns why.
func TestARequestedMoveIsDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		act  func(g *fixture) (told string, err error)
		told string
	}{
		"the turn was interrupted": {func(g *fixture) (string, error) { return g.endTurn(nil, true) }, "the turn was interrupted"},
		"the user cancels": {func(g *fixture) (string, error) {
			err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
				all, err := tl.Spool.ListRequested(ctx, tl.Workspace.ID())
				if err != nil {
					return err
				}
				if err := tl.CancelRequested(ctx, all[0]); err != nil {
					return err
				}
				if err := tl.CancelRequested(ctx, all[0]); segno.KindOf(err) != segno.KindNotFound {
					g.Errorf("cancelled twice: %v", err)
				}
				return nil
			})
			if err != nil {
				return "", err
			}
			return g.endTurn(nil, false)
		}, ""},
		"the end of the turn was lost": {func(g *fixture) (string, error) {
			if err := g.begin("D", segno.Source{Session: "session", Dir: g.project}); err != nil {
				return "", err
			}
			return "", g.end(nil, "D")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := requested(t)
			told, err := tc.act(g)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(told, tc.told) || tc.told == "" && told != "" {
				t.Errorf("the user was told %q", told)
			}
			if got := g.files(); got != filesOfC {
				t.Errorf("the files are\n%s", got)
			}
			if waiting, ops := g.waiting(); len(waiting)+len(ops) != 0 {
				t.Errorf("waiting are %+v, the log has %+v", waiting, ops)
			}
		})
	}
}

// TestEveryFailureOfARequestedMove fails disk operations of the end of a turn that requested an undo. The next end of the turn,
// or the next command, makes the move. It is made once.
func TestEveryFailureOfARequestedMove(t *testing.T) {
	complete := faultfs.FailAt(-1)
	g, _ := requested(t)
	if _, err := g.endTurn(complete.Wrap(vfs.OS), false); err != nil {
		t.Fatal(err)
	}
	sample := faultfs.Sample(t, complete.Trace())
	for _, n := range sample[:min(len(sample), soak.Count(t, 4, len(sample)))] {
		g, _ := requested(t)
		faults := faultfs.FailAt(n)
		if _, err := g.endTurn(faults.Wrap(vfs.OS), false); err != nil {
			if _, err := g.endTurn(nil, false); err != nil {
				t.Fatalf("operation %d of %v: the turn cannot end: %v", n, faults.Trace(), err)
			}
		}
		for range 2 { // the first may make the move, and is refused then
			_, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 9})
			if kind := segno.KindOf(err); kind != segno.KindNotFound && kind != segno.KindConflict {
				t.Fatalf("operation %d of %v: the next command: %v", n, faults.Trace(), err)
			}
		}
		waiting, ops := g.waiting()
		if len(waiting) != 0 || len(ops) != 1 || ops[0].ID != "op" || g.files() != filesOfA {
			t.Fatalf("operation %d of %v: waiting are %+v, the log has %+v, the files are\n%s", n, faults.Trace(), waiting, ops, g.files())
		}
		g.wantFilesOfHead()
		g.checkStore()
	}
}

// TestAMoveAfterARequestedOne makes the requested move first, if the end of the turn could not, and then lets the user decide
// again: the plan that the user had in mind is outdated.
func TestAMoveAfterARequestedOne(t *testing.T) {
	g, q := requested(t)
	if err := g.place.Spool().ClearRequested(g.Context(), *q); err != nil {
		t.Fatal(err)
	}
	if _, err := g.endTurn(nil, false); err != nil {
		t.Fatal(err)
	}
	if err := g.place.Spool().KeepRequested(g.Context(), *q); err != nil {
		t.Fatal(err)
	}
	undo := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}
	if _, err := g.move(nil, undo); segno.KindOf(err) != segno.KindConflict || !strings.Contains(err.Error(), "undo t2") {
		t.Errorf("the user's undo: %v", err)
	}
	if got := g.files(); got != filesOfA {
		t.Errorf("the files are\n%s", got)
	}
	if _, err := g.move(nil, undo); err != nil || g.files() != "a \"0\"\n" {
		t.Errorf("the user's second undo: %v\n%s", err, g.files())
	}
}
