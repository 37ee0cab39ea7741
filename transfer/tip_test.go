package transfer_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transfer"
)

// TestATipMovesAlone copies a thread whose newest turn was undone to a target that is at the same turn. The tip moves, so that a redo
// there reaches the undone turn, also if the target keeps its head because a directory works on the thread. A further copy has nothing
// to do.
func TestATipMovesAlone(t *testing.T) {
	for _, keep := range []bool{false, true} {
		laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
		laptop.begin("t")
		laptop.turn("t", "one")
		copyOf(t, laptop, fleet, "t", transfer.Created)
		laptop.turn("t", "two")
		laptop.undo("t")
		for _, want := range []transfer.Outcome{transfer.Forwarded, transfer.UpToDate} {
			for _, dry := range []bool{true, false} {
				res, err := transfer.Copy(t.Context(), laptop, fleet, "t", transfer.Options{KeepHead: keep, DryRun: dry})
				if err != nil || res.Outcome != want || res.Head != res.Source {
					t.Errorf("keep %v, dry run %v: the copy is %+v, %v, and not %s", keep, dry, res, err, want)
				}
			}
			wantSame(t, laptop, fleet, "t")
		}
	}
}

// TestAnUndoneTurnOfTheTargetStays copies to a target that has undone a turn that the source lacks. A redo there still reaches it.
func TestAnUndoneTurnOfTheTargetStays(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	laptop.begin("t")
	laptop.turn("t", "one")
	copyOf(t, laptop, fleet, "t", transfer.Created)
	tip := fleet.turn("t", "two").Head
	head := fleet.undo("t").Head
	copyOf(t, laptop, fleet, "t", transfer.UpToDate)
	if p := pointers(t, fleet, "t"); p != [2]segno.CommitID{head, tip} {
		t.Errorf("the head and the tip are %v, and were %s and %s", p, head, tip)
	}
}
