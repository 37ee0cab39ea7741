package history_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/store/memory"
)

// amendedMeanwhile is a store in which another process amends a thread's head while the
// first list of its checkpoints is read.
type amendedMeanwhile struct {
	segno.Store
	amend func()
}

func (s *amendedMeanwhile) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	if s.amend != nil {
		s.amend()
		s.amend = nil
	}
	return s.Store.Checkpoints(ctx, q)
}

// TestAHistoryWhoseHeadIsAmendedMeanwhile still finds the checkpoint that the thread is at.
func TestAHistoryWhoseHeadIsAmendedMeanwhile(t *testing.T) {
	store := memory.New(time.Now)
	commit := func(c segno.Commit) {
		t.Helper()
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(1_800_000_000, 0)
	commit(segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t", Created: at}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: at}})
	commit(segno.Commit{ID: "one", Thread: "t", Parent: "base", Expect: "base", Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Time: at}})
	s := &amendedMeanwhile{Store: store, amend: func() {
		commit(segno.Commit{ID: "amended", Thread: "t", Parent: "base", Expect: "one", Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Time: at, Amends: "one"}})
	}}
	h, err := history.Read(t.Context(), s, "t")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := h.Find("@"); err != nil || c.ID != "amended" {
		t.Errorf("the thread is at %+v, %v", c, err)
	}
	for _, name := range []string{"one", "on"} { // as segno printed it before
		if c, err := h.Find(name); err != nil || c.ID != "amended" {
			t.Errorf("%s is %+v, %v", name, c, err)
		}
	}
}

// TestATurnThatIsNotThereIsNoID checks that the name of a missing turn does not find a checkpoint
// whose id begins with that name.
func TestATurnThatIsNotThereIsNoID(t *testing.T) {
	one := segno.Checkpoint{ID: "t27abcdefghijklmnopqrstuv2", Kind: segno.CheckpointTurn, Turn: 1}
	h := &history.History{All: []segno.Checkpoint{one}, ByID: map[segno.CommitID]*segno.Checkpoint{one.ID: &one}}
	if c, err := h.Find("t2"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("t2 is %+v, %v", c, err)
	}
	for _, name := range []string{"t1", "t27a", "t27abc"} {
		if c, err := h.Find(name); err != nil || c.ID != one.ID {
			t.Errorf("%s is %+v, %v", name, c, err)
		}
	}
}

// TestNamesOfPoints resolves points inside turns: steps of a Go agent, and calls of an agent with a session, which are no
// checkpoints.
func TestNamesOfPoints(t *testing.T) {
	store := memory.New(time.Now)
	var head segno.CommitID
	commit := func(id segno.CommitID, c segno.Checkpoint) {
		t.Helper()
		x := segno.Commit{ID: id, Thread: "t", Parent: head, Expect: head, Checkpoint: &c}
		if c.Time = time.Unix(1_800_000_000, 0); head == "" {
			x.Create = &segno.Thread{ID: "t", Created: c.Time}
		}
		if _, err := store.Commit(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		head = id
	}
	commit("base", segno.Checkpoint{Kind: segno.CheckpointBase})
	commit("asked", segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1})
	commit("first", segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Step: 1})
	commit("one", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Step: 2})
	commit("again", segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 2, Step: 2})
	commit("second", segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 2, Step: 3})
	commit("session", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 3, Session: &segno.Position{Session: "s"}})
	if _, err := store.Commit(t.Context(), segno.Commit{ID: "pin", Thread: "t", Expect: head, Pin: &segno.Pin{Checkpoint: "base", Name: "t2.1\x00mine"}}); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(t.Context(), store, "t")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]segno.CommitID{"t1.1": "first", "t1.2": "one", "t2.1": "base", "mine": "base"} { // a pin of an earlier version may have such a name
		if c, err := h.Find(name); err != nil || c.ID != want {
			t.Errorf("%s is %+v, %v, want %s", name, c, err, want)
		}
	}
	delete(h.Pins, "base")
	if c, err := h.Find("t2.1"); err != nil || c.ID != "second" {
		t.Errorf("t2.1 is %+v, %v", c, err)
	}
	for _, name := range []string{"t1.3", "t2.2", "t1.0", "t1.x", "t1.", "t9.1", "t1.1.1", "t1.-1"} {
		if c, err := h.Find(name); segno.KindOf(err) != segno.KindNotFound {
			t.Errorf("%s is %+v, %v", name, c, err)
		}
	}
	var point *history.PointError
	if _, err := h.Find("t3.4"); !errors.As(err, &point) || point.Turn.ID != "session" || point.Call != 4 || segno.KindOf(err) != segno.KindRefused {
		t.Errorf("t3.4: %v", err)
	}
	for _, name := range []string{"t3.4", "t1.1"} {
		if history.IsPinName(name) {
			t.Errorf("%s is allowed as a pin", name)
		}
	}
}
