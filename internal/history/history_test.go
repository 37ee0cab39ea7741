package history_test

import (
	"context"
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
