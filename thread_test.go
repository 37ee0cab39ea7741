package segno_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
)

// TestFindThread looks for a thread beside a newer one whose id begins with the same text, as the id of an imported copy does.
func TestFindThread(t *testing.T) {
	s := memory.New(nil)
	for _, id := range []segno.ThreadID{"a", "a-copy"} {
		_, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID("base of " + id), Thread: id, Create: &segno.Thread{ID: id},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[segno.ThreadID]bool{"a": true, "a-copy": true, "a-c": false, "b": false} {
		if found, ok, err := segno.FindThread(t.Context(), s, id); err != nil || ok != want || ok && found.ID != id {
			t.Errorf("%s: %q, %t, %v", id, found.ID, ok, err)
		}
	}
}
