package transfer_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transfer"
)

// TestCommitsThatTheTargetDropped copies a thread to a target that has collected some of its commits: a checkpoint that a later one
// amends, or a line that an undo left. Later turns arrive there. A copy whose head needs a dropped commit fails, and the error names
// the commit.
func TestCommitsThatTheTargetDropped(t *testing.T) {
	for _, amended := range []bool{true, false} {
		laptop, fleet := newMemory(t, "laptop"), newSQLite(t, "fleet", sqlite.Options{})
		laptop.begin("t")
		at := laptop.turn("t", "one")
		gone := laptop.turn("t", "two").Head
		policy := segno.CollectPolicy{Trace: new(reachable.Tracer).Trace}
		if amended {
			laptop.commit(segno.Commit{Thread: "t", Parent: at.Head, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 2,
				Time: began, Prompt: "two", Key: "two", Amends: gone}}, "the end of two")
		} else {
			laptop.undo("t")
			laptop.turn("t", "three")
			policy.Retain = &segno.RetainedLines{Since: began.AddDate(1, 0, 0), Newest: map[segno.ThreadID]int64{"t": 1 << 40}}
		}
		copyOf(t, laptop, fleet, "t", transfer.Created)
		done, err := fleet.completeStore.(segno.Collector).Collect(t.Context(), policy)
		if err != nil || done.Checkpoints != 1 {
			t.Fatalf("the collection dropped %+v, %v", done, err)
		}
		laptop.turn("t", "four")
		if res := copyOf(t, laptop, fleet, "t", transfer.Forwarded); res.Commits != 2 {
			t.Errorf("amended %v: the copy sends %+v", amended, res)
		}
		after := pointers(t, fleet, "t")
		if after != pointers(t, laptop, "t") {
			t.Errorf("amended %v: the fleet is at %v", amended, after)
		}
		copyOf(t, laptop, fleet, "t", transfer.UpToDate)
		laptop.commit(segno.Commit{Thread: "t", Move: &segno.Move{Head: gone, Tip: gone}}, "")
		for _, more := range []string{"", "in the line"} {
			if more != "" {
				laptop.turn("t", more)
			}
			_, err := transfer.Copy(t.Context(), laptop, fleet, "t", transfer.Options{})
			if segno.KindOf(err) != segno.KindNotFound || !strings.Contains(err.Error(), string(gone)) || pointers(t, fleet, "t") != after {
				t.Errorf("amended %v: the copy of the dropped line: %v", amended, err)
			}
		}
	}
}
