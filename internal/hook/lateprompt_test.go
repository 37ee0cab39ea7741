package hook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestAPromptWithoutASnapshot lets the user edit a file between two turns. The workspace is locked when the second turn
// begins, so the newest known state is older than the edit. The edit is not the turn's, and its undo keeps it.
func TestAPromptWithoutASnapshot(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "mine": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.waitForClock()
	c.write("mine", "1")
	c.waitForClock()
	var lock string
	c.as(segno.Lease{}, func(_ context.Context, _ *local.Store, r *timeline.Timeline) error {
		lock = filepath.Join(c.place.Store, "locks", segno.DerivedID("workspace", string(r.Workspace.ID())))
		return nil
	})
	if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)); err != nil { // no process can lock a directory
		t.Fatal(err)
	}
	c.asks("p2", "two")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	c.waitForClock()
	c.writes("p2", "t2", "a", "2")
	c.stops("p2")
	c.wantHistory("base, 1 one, 2 two, external")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 mine=1")
}
