package timeline_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// reads counts the commits that a store loads.
type reads struct {
	*memory.Store
	commits int
}

func (s *reads) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	line, err := s.Store.Load(ctx, at, w)
	if err == nil {
		s.commits += len(line.Commits)
	}
	return line, err
}

// TestAnUndoOfManySharedTurns undoes all turns of a thread while another thread had a turn beside each of them. Twice as many turns
// must take about twice as many reads: an undo of a few hundred such turns would otherwise take minutes.
func TestAnUndoOfManySharedTurns(t *testing.T) {
	undo := func(turns int) (commits int) {
		e := newEdited(t, nil, t.TempDir())
		var thread segno.ThreadID
		for i := range turns {
			sources := []segno.Source{{Session: "mine"}, {Session: "theirs"}}
			key := func(s segno.Source) segno.TurnKey { return segno.TurnKey(fmt.Sprint(s.Session, i)) }
			for _, s := range sources {
				_, err := e.site.BeginTurn(t.Context(), timeline.Prompt{Key: key(s), Agent: "test", Source: s, Text: "change"})
				e.must(err)
			}
			e.write("a", []string{fmt.Sprint(i)})
			for _, s := range sources {
				c, err := e.site.EndTurn(t.Context(), timeline.TurnEnd{Key: key(s), Agent: "test", Source: s})
				e.must(err)
				if !c.Shared {
					t.Fatal("the turn is not shared")
				}
				if s.Session == "mine" {
					thread = c.Thread
				}
			}
		}
		c := e.site.Config
		counted := &reads{Store: c.Store.(*memory.Store)}
		c.Store = counted
		_, err := timeline.Open(c).Preview(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Thread: thread, Turns: turns})
		e.must(err)
		return counted.commits
	}
	few, many := undo(16), undo(32)
	if t.Logf("%d and %d commits", few, many); many > 3*few {
		t.Errorf("the undo of twice as many turns reads %d commits instead of %d", many, few)
	}
}
