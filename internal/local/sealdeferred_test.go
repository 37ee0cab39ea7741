package local_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno/timeline"
)

// TestSealWithDeferredTurnsOfADirectoryThatIsGone seals and unseals a store while a turn of the only workspace is deferred and its
// directory is away. When the directory is back, the turn is committed and can be undone and redone.
func TestSealWithDeferredTurnsOfADirectoryThatIsGone(t *testing.T) {
	for _, unseal := range []bool{false, true} {
		g := newFixture(t)
		big := make([]byte, 3<<20) // too much for the commit: it waits in a pack
		if _, err := rand.NewChaCha8([32]byte{}).Read(big); err != nil {
			t.Fatal(err)
		}
		g.write("a", "0")
		if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
			t.Fatal(err)
		}
		wait := g.place.StoreWait
		g.place.StoreWait = 20 * time.Millisecond
		release := g.holdWriter()
		if err := g.turn("B", func() { g.write("a", "2"); g.write("big", string(big)) }); err != nil {
			t.Fatal(err)
		}
		release()
		g.place.StoreWait = wait
		away := g.project + " of another disk"
		if err := os.Rename(g.project, away); err != nil {
			t.Fatal(err)
		}
		g.seal(g.keyFile("key"))
		if unseal {
			if _, err := g.place.UnsealStore(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(away, g.project); err != nil {
			t.Fatal(err)
		}
		g.runNextCommand()
		g.wantTurns("AB")
		g.wantNoneDeferred()
		g.checkStore()
		g.undo(timeline.MoveRequest{})
		if got := g.files(); got != "a \"1\"\n" {
			t.Errorf("the undo of the deferred turn left\n%s", got)
		}
		if _, err := g.move(nil, timeline.MoveRequest{Verb: "redo", Turns: 1}); err != nil {
			t.Fatal(err)
		}
		a, err := os.ReadFile(filepath.Join(g.project, "a"))
		b, bigErr := os.ReadFile(filepath.Join(g.project, "big"))
		if err := errors.Join(err, bigErr); err != nil || string(a) != "2" || string(b) != string(big) {
			t.Errorf("the redo of the deferred turn left a as %q and %d bytes of big, %v", a, len(b), err)
		}
	}
}
