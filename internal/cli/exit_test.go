package cli

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/local"
)

// Exit code 4 means that the move was made. After a lost race nothing was done, so the code must
// differ.
func TestExitCodeOfALostRaceIsItsOwn(t *testing.T) {
	late := segno.NewError(segno.KindConflict, "commit", "", &segno.ConflictError{Actual: segno.Head{Thread: "t"}})
	if got := New(Env{}, nil).exitCode(fmt.Errorf("commit undo: %w", late)); got != 11 {
		t.Errorf("another writer was first: exit code %d, want 11", got)
	}
	if got := New(Env{}, nil).exitCode(ErrSilent); got != 4 {
		t.Errorf("done, with conflicts: exit code %d, want 4", got)
	}
	for _, e := range exitTable {
		if e.code == exitConflict && len(e.kinds) != 1 {
			t.Errorf("kinds %v end with %d, want only %v", e.kinds, e.code, segno.KindPartial)
		}
	}
}

// TestAMissingContentIsDamage checks the exit code if the store lacks the content of a file that a
// tree names. It is the code of damage, and not that of a mistyped name.
func TestAMissingContentIsDamage(t *testing.T) {
	dir := t.TempDir()
	store, err := local.Place{Store: filepath.Join(dir, "store"), UserHome: dir, Now: time.Now}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lost := segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf([]byte("lost")), Size: 4}
	_, err = patch.Of(t.Context(), (&Workspace{Store: store}).Content, segno.Change{Path: "a", From: lost}, false)
	if segno.KindOf(err) != segno.KindCorrupt || New(Env{}, nil).exitCode(err) != 6 || segno.HintOf(err) == "" {
		t.Errorf("the patch of a lost file returns %v with code %d and hint %q", err, New(Env{}, nil).exitCode(err), segno.HintOf(err))
	}
}
