package timeline_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// TestThePlanOfARedoReadsALineOnce plans a redo of two turns after many moves over one of them. The commits that the plan loads for each
// move must not grow with the length of the thread.
func TestThePlanOfARedoReadsALineOnce(t *testing.T) {
	perMove := func(turns int) int {
		e := newEdited(t, nil, t.TempDir())
		for i := range turns {
			e.put(map[string]int{"a": i + 1})
		}
		e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 3})
		const pairs = 8
		count := func() int {
			for range pairs {
				e.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
				e.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
			}
			c := e.site.Config
			store := &reads{Store: c.Store.(*memory.Store)}
			c.Store = store
			_, err := timeline.Open(c).Preview(t.Context(), timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 2})
			e.must(err)
			return store.commits
		}
		few := count()
		n := (count() - few) / (2 * pairs)
		t.Logf("%d turns: %d commits for each move", turns, n)
		return n
	}
	if short, long := perMove(4), perMove(24); long > short {
		t.Errorf("the plan loads %d commits for each move if the thread has 4 turns, and %d if it has 24", short, long)
	}
}
