package sqlite

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
)

// TestEachLink lists the links of two threads, of which the older one changed last, without those of a deleted thread.
func TestEachLink(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	commit := func(id, thread string, at *segno.Head, l segno.Link) {
		t.Helper()
		c := segno.Commit{ID: segno.CommitID(id), Thread: segno.ThreadID(thread), Parent: at.Head, Expect: at.Head, Link: &l,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Agent: "test"}}
		if at.Head == "" {
			c.Create = &segno.Thread{ID: c.Thread}
		}
		var err error
		if *at, err = s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var one, two, gone segno.Head
	commit("1", "one", &one, segno.Link{Session: "a"})
	commit("2", "two", &two, segno.Link{Session: "b"})
	commit("3", "gone", &gone, segno.Link{Session: "d"})
	commit("4", "one", &one, segno.Link{Session: "c"})
	commit("5", "one", &one, segno.Link{Session: "e", Detached: true})
	if err := s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := s.EachLink(t.Context(), func(thread segno.ThreadID, seq int64, l segno.Link, isHead bool) {
		got = append(got, fmt.Sprint(thread, " ", seq, " ", l.Session, " ", isHead))
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one 3 a false", "one 3 c true", "one 3 e false", "two 1 b true"}, got); diff != "" {
		t.Error(diff)
	}
}
