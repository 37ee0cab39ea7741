package cli

import (
	"testing"

	"github.com/dalsegno/segno"
)

// TestATurnIsNoSession checks that t7 never names a session whose id begins with t7.
func TestATurnIsNoSession(t *testing.T) {
	d := newBench(t)
	store, err := d.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const session = "t7q3wbjl2yhz"
	if _, err := store.Commit(t.Context(), segno.Commit{ID: "c", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Entries: []segno.Entry{{Kind: segno.EntryNote}}, Link: &segno.Link{Agent: "segno", Session: session}}); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	if s, err := a.sessionNamed(t.Context(), d.place, store, session[:8]); err != nil || s.Session != session {
		t.Errorf("%s names %q, %v", session[:8], s.Session, err)
	}
	if s, err := a.sessionNamed(t.Context(), d.place, store, "t7"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("t7 names session %q, %v", s.Session, err)
	}
}
