package hook

import (
	"context"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// amendKiller is a store that kills its process before it amends the second checkpoint.
type amendKiller struct {
	*local.Store
	amended int
}

func (s *amendKiller) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if c.Checkpoint != nil && c.Checkpoint.Amends != "" {
		if s.amended++; s.amended > 1 {
			return segno.Head{}, segno.Errorf(segno.KindCancelled, "commit", string(c.ID), "the process was killed")
		}
	}
	return s.Store.Commit(ctx, c)
}

// TestAKillBetweenTwoAmendments kills the process that adds the work of a subagent to its turn and to the turn above it, between
// the two. The next process completes both, and the subagent's file belongs to its turn.
func TestAKillBetweenTwoAmendments(t *testing.T) {
	c := startSubagent(t)
	c.asks("p2", "two")
	c.writes("p2", "t3", "notes", "2")
	c.stops("p2", subagent())
	c.waitForClock()
	c.runSubagent("p2")
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, r *timeline.Timeline) error {
		own := *r
		killer := &amendKiller{Store: st}
		own.Store = killer
		spool, err := c.place.Spool().Turns(ctx)
		if err != nil {
			return err
		}
		_, _ = own.Preview(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, WhileRunning: true})
		if killer.amended != 2 {
			t.Fatalf("%d checkpoints were amended", killer.amended)
		}
		for _, turn := range spool { // the killed process did not write these
			if err := c.place.Spool().SaveTurn(ctx, turn); err != nil {
				return err
			}
		}
		return nil
	})
	c.previewsUndo()
	c.wantHistory("base, 1 one, 2 two")
	c.wantOneLine()
	c.killAgent()
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 notes=0 sub=by the subagent")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 notes=0")
	c.wantNoFailures()
}
