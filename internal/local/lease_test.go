package local_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// lease acquires the lease on a thread; release releases it.
func (g *fixture) lease(thread segno.ThreadID, owner string) (l segno.Lease) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) (err error) {
		l, err = s.Acquire(ctx, segno.Lease{Thread: thread, Owner: owner, Expires: g.place.Now().Add(time.Hour)})
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return l
}

func (g *fixture) release(l segno.Lease) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error { return s.Release(ctx, l) })
	if err != nil {
		g.Fatal(err)
	}
}

// under makes a timeline hold a lease.
func under(l segno.Lease) func(*timeline.Timeline) {
	return func(s *timeline.Timeline) { s.Lease = l }
}

// beginUnder and endUnder record a turn of the session under a lease.
func (g *fixture) beginUnder(l segno.Lease, key string) error {
	return g.record(under(l), func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Text: key, Owner: l.Owner,
			Source: segno.Source{Session: "session", Dir: g.project}})
		return err
	})
}

func (g *fixture) endUnder(l segno.Lease, key string) error {
	return g.record(under(l), func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: segno.Source{Session: "session", Dir: g.project}})
		return err
	})
}

// leased returns a thread with one turn, and a lease on it.
func leased(t testing.TB) (*fixture, segno.Lease) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	_, head := g.checkpoints()
	return g, g.lease(head.Thread, "one")
}

// TestTurnsUnderALease checks that turns are committed under the lease's epoch.
func TestTurnsUnderALease(t *testing.T) {
	g, one := leased(t)
	g.write("mine", "1") // between turns: an external checkpoint, too
	if err := g.beginUnder(one, "B"); err != nil {
		t.Fatal(err)
	}
	if o := g.open(); len(o) != 1 || o[0].Owner != "one" {
		t.Errorf("open are %+v", o)
	}
	g.write("a", "B")
	if err := g.endUnder(one, "B"); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("AB")
	if _, head := g.checkpoints(); head.Epoch != one.Epoch {
		t.Errorf("the head is %+v, the lease %+v", head, one)
	}
	g.wantFilesOfHead()
	g.checkStore()
}

// TestAnExpiredLease fences the former lease holder at every step of a turn. The turn stays
// open, and the present holder records it.
func TestAnExpiredLease(t *testing.T) {
	g, one := leased(t)
	if err := g.beginUnder(one, "B"); err != nil {
		t.Fatal(err)
	}
	g.write("a", "B")
	g.release(one)
	two := g.lease(one.Thread, "two")
	if two.Epoch <= one.Epoch {
		t.Fatalf("the epoch went from %d to %d", one.Epoch, two.Epoch)
	}
	if err := g.endUnder(one, "B"); segno.KindOf(err) != segno.KindFenced {
		t.Errorf("the end: %v", err)
	}
	join := func(l segno.Lease) error {
		return g.record(under(l), func(ctx context.Context, r *timeline.Timeline) error {
			return r.JoinSession(ctx, one.Thread, segno.Link{Agent: "test", Session: "another", Dir: g.project, Start: g.place.Now(), Fidelity: segno.FidelityPreamble})
		})
	}
	if err := join(one); segno.KindOf(err) != segno.KindFenced {
		t.Errorf("a join: %v", err)
	}
	g.wantTurns("A")
	if o := g.open(); len(o) != 1 || o[0].Key != "B" {
		t.Fatalf("open are %+v", o)
	}
	if err := g.endUnder(two, "B"); err != nil {
		t.Fatal(err)
	}
	if err := join(two); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("AB")
	g.wantFilesOfHead()
	g.checkStore()
}

// TestALeaseThatExpiredDuringATurn lets the lease of a turn expire while the process of the turn runs, as after a machine has
// slept. A move is refused until the process has released the lease.
func TestALeaseThatExpiredDuringATurn(t *testing.T) {
	g, one := leased(t)
	err := g.record(under(one), func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.BeginTurn(ctx, timeline.Prompt{Key: "B", Agent: "test", Text: "B", Owner: one.Owner, Source: segno.Source{Session: "session", Dir: g.project},
			Process: timeline.Process{PID: os.Getpid(), PIDStart: proc.Start(os.Getpid())}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g.write("a", "half")
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(2 * time.Hour) }
	undo := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}
	if _, err := g.move(nil, undo); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("an undo: %v", err)
	}
	if got := g.files(); got != "a \"half\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	g.release(one)
	if _, err := g.move(nil, undo); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("AB")
	g.checkStore()
}

// TestBesideALease records the work of a hook or a command without a lease before, during and after
// the turns of the lease holder.
func TestBesideALease(t *testing.T) {
	g, one := leased(t)
	if err := g.turn("B", func() { g.write("a", "B") }); err != nil {
		t.Fatalf("a hook's turn: %v", err)
	}
	if err := g.beginUnder(one, "C"); err != nil {
		t.Fatal(err)
	}
	g.write("a", "C")
	if err := g.endUnder(one, "C"); err != nil {
		t.Fatal(err)
	}
	g.undo(timeline.MoveRequest{})
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.Save(ctx, segno.CheckpointSave, "by hand")
		return err
	})
	if err != nil {
		t.Fatalf("a save: %v", err)
	}
	if got := g.files(); got != "a \"B\"\n" {
		t.Errorf("undo left\n%s", got)
	}
	if err := g.beginUnder(one, "D"); err != nil {
		t.Fatalf("the lease's next turn: %v", err)
	}
	g.write("a", "D")
	if err := g.endUnder(one, "D"); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("ABCD")
	g.wantFilesOfHead()
	g.checkStore()
}

// deferTurn records a turn while the store is busy, so that its commit is deferred.
func (g *fixture) deferTurn(key string, l segno.Lease) {
	g.Helper()
	wait := g.place.StoreWait
	g.place.StoreWait = 20 * time.Millisecond
	release := g.holdWriter()
	if err := g.beginUnder(l, key); err != nil {
		g.Fatal(err)
	}
	g.write("a", key)
	if err := g.endUnder(l, key); err != nil {
		g.Fatal(err)
	}
	release()
	g.place.StoreWait = wait
	waiting, err := g.place.Spool().ListDeferred(g.Context())
	if err != nil || len(waiting) == 0 {
		g.Fatalf("%d commits wait, %v", len(waiting), err)
	}
}

// acquire acquires a lease without the recovery that a command does first.
func (g *fixture) acquire(thread segno.ThreadID, owner string) segno.Lease {
	g.Helper()
	s, err := g.place.Open(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	defer s.Close()
	l, err := s.Acquire(g.Context(), segno.Lease{Thread: thread, Owner: owner, Expires: g.place.Now().Add(time.Hour)})
	if err != nil {
		g.Fatal(err)
	}
	return l
}

// wantNoneDeferred checks that no commit is deferred.
func (g *fixture) wantNoneDeferred() {
	g.Helper()
	waiting, err := g.place.Spool().ListDeferred(g.Context())
	if err != nil || len(waiting) != 0 {
		g.Errorf("%d commits still wait, %v", len(waiting), err)
	}
	failed, err := g.place.Spool().Failed()
	if err != nil || len(failed) != 0 {
		g.Errorf("set aside are %v, %v", failed, err)
	}
}

// TestADeferredTurnFromBeforeALease commits a turn that was deferred before the lease, regardless
// of which process replays it.
func TestADeferredTurnFromBeforeALease(t *testing.T) {
	for _, holder := range []bool{false, true} {
		g := newFixture(t)
		g.write("a", "0")
		if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
			t.Fatal(err)
		}
		_, head := g.checkpoints()
		g.deferTurn("B", segno.Lease{})
		l := g.acquire(head.Thread, "one")
		if !holder {
			g.runNextCommand()
		}
		if err := g.beginUnder(l, "C"); err != nil {
			t.Fatal(err)
		}
		g.write("a", "C")
		if err := g.endUnder(l, "C"); err != nil {
			t.Fatal(err)
		}
		g.wantTurns("ABC")
		g.wantNoneDeferred()
		g.wantFilesOfHead()
		g.checkStore()
	}
}

// TestADeferredTurnAndAHolderThatWasFenced checks that a fenced lease holder can neither commit a
// deferred turn nor discard it. A process that may write commits it later.
func TestADeferredTurnAndAHolderThatWasFenced(t *testing.T) {
	g, one := leased(t)
	g.deferTurn("B", segno.Lease{})
	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	s.Close()
	g.acquire(one.Thread, "two")
	if err := g.beginUnder(one, "C"); segno.KindOf(err) != segno.KindFenced {
		t.Errorf("the old holder: %v", err)
	}
	g.runNextCommand() // a process without a lease
	g.wantTurns("AB")
	g.wantNoneDeferred()
	g.checkStore()
}

// TestADeferredTurnOfAHolder commits a deferred turn although another process has acquired the
// lease since, because the turn was complete before.
func TestADeferredTurnOfAHolder(t *testing.T) {
	g, one := leased(t)
	g.deferTurn("B", one)
	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	s.Close()
	two := g.acquire(one.Thread, "two")
	if err := g.beginUnder(two, "C"); err != nil {
		t.Fatal(err)
	}
	g.write("a", "C")
	if err := g.endUnder(two, "C"); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("ABC")
	g.wantNoneDeferred()
	g.wantFilesOfHead()
	g.checkStore()
}

// TestTwoRegisterOneDirectory registers an unknown directory from many goroutines at once, each
// with a separate store as processes have. All of them get the same workspace.
func TestTwoRegisterOneDirectory(t *testing.T) {
	g := newFixture(t)
	g.place.Now = time.Now
	if err := g.withTimeline(nil, func(context.Context, *local.Store, *timeline.Timeline) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		dir := filepath.Join(filepath.Dir(g.project), "new", string(rune('a'+round)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		ids := make([]segno.WorkspaceID, 8)
		for i := range ids {
			all.Go(func() {
				s, err := g.place.Open(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				rec, err := s.Register(t.Context(), dir)
				if err != nil {
					t.Error(err)
				}
				ids[i] = rec.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id == "" || id != ids[0] {
				t.Fatalf("the workspaces are %v", ids)
			}
		}
	}
}
