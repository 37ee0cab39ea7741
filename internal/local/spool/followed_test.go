package spool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/vfs"
)

// TestEventsOfALaterTurn opens a turn to which the events under the key of another open turn belong. This is still so in a store that
// was sealed since, and ends with the other turn.
func TestEventsOfALaterTurn(t *testing.T) {
	ctx, z := t.Context(), newSealer(t, 1)
	plain, sealed := New(t.TempDir(), vfs.OS), NewSealed(t.TempDir(), vfs.OS, func() (Sealer, error) { return z, nil })
	later := turn("later")
	later.EventKey = "one"
	if err := plain.SaveTurn(ctx, later); err != nil || plain.ReceivesEvents("one") {
		t.Fatalf("a turn that is not open receives events; %v", err)
	}
	if err := plain.SaveTurn(ctx, turn("one")); err != nil || !plain.ReceivesEvents("one") {
		t.Fatalf("an open turn receives no events; %v", err)
	}
	if err := plain.SaveTurn(ctx, later); err != nil || plain.ReceivesEvents("one") || !plain.ReceivesEvents("later") {
		t.Fatalf("the events do not belong to the later turn; %v", err)
	}
	if err := os.MkdirAll(filepath.Join(sealed.path, "turns"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := plain.CopyTurns(ctx, sealed); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Dir{plain, sealed} {
		if turns, err := d.Turns(ctx); err != nil || len(turns) != 2 || d.ReceivesEvents("one") {
			t.Errorf("%d turns are open, %v", len(turns), err)
		}
		for _, key := range []string{"one", "later"} {
			if err := d.DeleteTurn(ctx, turn(key).Key); err != nil {
				t.Error(err)
			}
		}
		if left, err := filepath.Glob(filepath.Join(d.path, "turns", "*")); err != nil || len(left) > 0 {
			t.Errorf("files are left: %v, %v", left, err)
		}
	}
}
