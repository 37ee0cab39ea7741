package segno_test

import (
	"testing"

	"github.com/dalsegno/segno"
)

// TestAResultEndsItsOwnCallOnly folds a question, an intent and results: one of the same call,
// one of another call, and one that names no call.
func TestAResultEndsItsOwnCallOnly(t *testing.T) {
	ask := func(id, call, via string) segno.Entry {
		e, err := segno.Interrupt{ID: id, Call: call, Via: via}.Entry()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	s := &segno.State{Answers: map[string]segno.Answer{}}
	apply := func(all ...segno.Entry) {
		t.Helper()
		for _, e := range all {
			if err := s.Apply(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(ask("q1", "c1", ""), ask("q2", "sub", "c2"), segno.Entry{Kind: segno.EntryIntent, ID: "c2"},
		segno.Entry{Kind: segno.EntryResult}, segno.Entry{Kind: segno.EntryResult, ID: "other"})
	if len(s.Interrupts) != 2 || len(s.Unknown) != 1 {
		t.Fatalf("%d questions and %d intents are left", len(s.Interrupts), len(s.Unknown))
	}
	apply(segno.Entry{Kind: segno.EntryResult, ID: "c2"})
	if len(s.Interrupts) != 1 || s.Interrupts[0].ID != "q1" || len(s.Unknown) != 0 {
		t.Errorf("%+v and %+v are left", s.Interrupts, s.Unknown)
	}
}
