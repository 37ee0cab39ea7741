package cli

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// TestATurnIsNoSession checks that t7 never names a session whose id begins with t7.
func TestATurnIsNoSession(t *testing.T) {
	place := local.Place{Store: filepath.Join(t.TempDir(), "store"), UserHome: t.TempDir(), Now: time.Now}
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const session = "t7q3wbjl2yhz"
	if _, err := store.Commit(t.Context(), segno.Commit{ID: "c", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Entries: []segno.Entry{{Kind: segno.EntryNote}}, Link: &segno.Link{Agent: "segno", Session: session}}); err != nil {
		t.Fatal(err)
	}
	a := &App{}
	if s, err := a.SessionNamed(t.Context(), place, store, session[:8]); err != nil || s.Session != session {
		t.Errorf("%s names %q, %v", session[:8], s.Session, err)
	}
	if s, err := a.SessionNamed(t.Context(), place, store, "t7"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("t7 names session %q, %v", s.Session, err)
	}
}
