package timeline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
)

// TestOverlayReadsLikeTheStore compares two reads of the same commits: from a store that has all of them,
// and through the overlay while the last ones wait.
func TestOverlayReadsLikeTheStore(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	clock := func() time.Time { return at }
	leaf := func(session segno.SessionID, leaf string) *segno.Position {
		return &segno.Position{Agent: "claude", Session: session, Leaf: leaf}
	}
	link := func(session segno.SessionID) *segno.Link {
		return &segno.Link{Agent: "claude", Session: session, Start: at, Reason: "start"}
	}
	commits := []segno.Commit{
		{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t", Created: at, Agent: "claude"}, Link: link("s1"),
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: at, Session: leaf("s1", "")}},
		{ID: "one", Thread: "t", Parent: "base", Expect: "base", Entries: []segno.Entry{{Kind: segno.EntryNote, Name: "segno", Body: quote("first")}},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Time: at, Key: "k1", Session: leaf("s1", "l1")}},
		{ID: "notes", Thread: "t", Parent: "one", Expect: "one", Entries: []segno.Entry{{Kind: segno.EntryNote, Name: "segno", Body: quote("between")}}},
		{ID: "two", Thread: "t", Parent: "notes", Expect: "notes", Link: link("s2"),
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 2, Time: at, Key: "k2", Session: leaf("s2", "l2")}},
		{ID: "outside", Thread: "t", Parent: "two", Expect: "two",
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: 2, Time: at, Session: leaf("s2", "l2")}},
	}
	type reads struct {
		Head, Tip          segno.CommitID
		Turn               int
		At                 segno.CommitID
		ByKey, BySession   segno.CommitID
		Turn1, Turn2       segno.CommitID
		OfS1, OfS2, OfNone segno.ThreadID
		Known, Unknown     bool
		Entries            map[segno.CommitID]int
		First, Newest      segno.SessionID
	}
	read := func(o *overlay) (r reads) {
		t.Helper()
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		id := func(c *segno.Checkpoint, err error) segno.CommitID {
			must(err)
			return c.ID
		}
		s, err := o.threadState(ctx, "t")
		must(err)
		r.Head, r.Tip, r.Turn, r.At = s.head.Head, s.head.Tip, s.head.Turn, s.at.ID
		r.ByKey = id(o.newest(ctx, segno.CheckpointQuery{Key: "k1", Session: "s1"}))
		r.BySession = id(o.newest(ctx, segno.CheckpointQuery{Session: "s2"}))
		r.Turn1, r.Turn2 = id(o.newestTurn(ctx, "t", "s1")), id(o.newestTurn(ctx, "t", "s2"))
		for session, to := range map[segno.SessionID]*segno.ThreadID{"s1": &r.OfS1, "s2": &r.OfS2, "s3": &r.OfNone} {
			*to, err = o.threadOf(ctx, session)
			must(err)
			of, err := o.threadOfAgent(ctx, "claude", session)
			must(err)
			if of != *to {
				t.Errorf("the thread of %s is %q, and with its agent %q", session, *to, of)
			}
		}
		r.Known, r.Unknown = o.isKnownLeaf(ctx)("l2"), o.isKnownLeaf(ctx)("l3")
		r.Entries = map[segno.CommitID]int{}
		for _, c := range commits {
			es, err := o.commitEntries(ctx, c.ID)
			must(err)
			r.Entries[c.ID] = len(es)
		}
		first, newest, err := o.linksOf(ctx, s.head, "s2")
		must(err)
		r.First, r.Newest = first.Session, newest.Session
		return r
	}
	var want reads
	for waiting := range len(commits) + 1 {
		store := memory.New(clock)
		stored := len(commits) - waiting
		for _, c := range commits[:stored] {
			if _, err := store.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		o := &overlay{store: store}
		head := segno.Head{}
		if stored > 0 {
			s, err := o.threadState(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			head = s.head
		}
		for _, c := range commits[stored:] {
			head = o.add(c, head).head
		}
		got := read(o)
		if waiting == 0 {
			want = got
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d commits wait: the store has -, the overlay has +:\n%s", waiting, d)
		}
	}
	if want.Head != "outside" || want.At != "outside" || want.Turn2 != "two" || want.OfS2 != "t" || want.OfNone != "" || !want.Known || want.Unknown {
		t.Errorf("the store has %+v", want)
	}
}
