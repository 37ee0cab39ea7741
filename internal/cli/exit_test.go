package cli

import (
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
)

// A script that sees 4 knows that the move was made; a lost race did nothing.
func TestExitCodeOfALostRaceIsItsOwn(t *testing.T) {
	late := segno.NewError(segno.KindConflict, "commit", "", &segno.ConflictError{Actual: segno.Head{Thread: "t"}})
	if got := exitCode(fmt.Errorf("commit undo: %w", late)); got != 11 {
		t.Errorf("another writer was first: exit code %d, want 11", got)
	}
	if got := exitCode(errSilent); got != 4 {
		t.Errorf("done, with conflicts: exit code %d, want 4", got)
	}
	for _, e := range exitTable {
		if e.code == exitConflict && len(e.kinds) != 1 {
			t.Errorf("kinds %v end with %d, want only %v", e.kinds, e.code, segno.KindPartial)
		}
	}
}
