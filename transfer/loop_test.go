package transfer_test

import (
	"context"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transfer"
)

// loop is a source with a newest commit that names itself as its parent.
type loop struct{ segno.Store }

func (l loop) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	h, err := l.Store.Head(ctx, thread)
	h.Head, h.Tip = "loop", "loop"
	return h, err
}

func (l loop) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	if at != "loop" {
		return l.Store.Load(ctx, at, w)
	}
	n := segno.Node{ID: "loop", Thread: "t", Parent: "loop", Seq: 100, Checkpoint: &segno.Checkpoint{ID: "loop", Thread: "t", Kind: segno.CheckpointSave}}
	return &segno.Line{Commits: []segno.Node{n}}, nil
}

// TestACommitThatIsItsOwnParent copies from a hostile server. The copy must end, and change nothing.
func TestACommitThatIsItsOwnParent(t *testing.T) {
	a, b := newMemory(t, "a"), newMemory(t, "b")
	a.begin("t")
	if _, err := transfer.Copy(t.Context(), a, b, "t", transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	before := b.head("t")
	for _, o := range []transfer.Options{{}, {DryRun: true}} {
		if res, err := transfer.Copy(t.Context(), loop{a}, b, "t", o); segno.KindOf(err) != segno.KindCorrupt {
			t.Errorf("the copy returns %+v, %v", res, err)
		}
	}
	if b.head("t") != before {
		t.Error("the thread moved")
	}
}
