package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

func lists() []clause {
	return []clause{
		{"queries", "each field of a query chooses, and all of them together", queries},
		{"pages", "a page is the same whatever is appended meanwhile: Before and Limit agree with an oracle", pages},
		{"listing while committing", "whoever lists may call the store, for as long as they like", listingWhileCommitting},
		{"threads", "threads come the most recently changed first", threadOrder},
		{"steps", "Step chooses the checkpoints that end a step, of every line and thread", steps},
		{"meta", "Meta chooses the checkpoints that have all of its pairs, whatever bytes they are", meta},
		{"limits come last", "a limit counts what the rest of the query chose, and no limit is all", limitsComeLast},
		{"parts", "Of chooses the parts of a thread, Whole the threads that are part of none", parts},
		{"hostile parts", "a part's thread and its name come back as they were, whatever they are", hostileParts},
	}
}

func queries(f *fixture) {
	for _, data := range []string{"one", "two"} {
		f.ok(f.store.Objects().Keep(f.Context(), f.stage(data)))
	}
	head := f.thread()
	add := func(id, session, leaf, key, workspace string) {
		c := f.next(head)
		c.ID, c.Checkpoint.Key = segno.CommitID(id), segno.TurnKey(key)
		if session != "" {
			c.Checkpoint.Session = &segno.Position{Session: segno.SessionID(session), Leaf: leaf}
		}
		if workspace != "" {
			c.Checkpoint.Workspace = &segno.Snapshot{Workspace: segno.WorkspaceID(workspace), Tree: name("one")}
		}
		head = f.commit(c)
	}
	add("aa1", "s1", "leaf1", "key1", "w1")
	add("aa2", "s1", "leaf2", "key2", "w1")
	add("ab3", "s2", "leaf2", "key2", "w2")
	add("ab4", "s2", "leaf4", "", "")
	other := f.base("other", "")
	other.ID, other.Checkpoint.Key = "aa5", "key1"
	f.commit(other)
	for _, x := range []struct {
		q    segno.CheckpointQuery
		want string
	}{
		{segno.CheckpointQuery{Session: "s1"}, "aa2 aa1"},
		{segno.CheckpointQuery{Session: "s2", Leaf: "leaf2"}, "ab3"},
		{segno.CheckpointQuery{Session: "s1", Leaf: "leaf4"}, ""},
		{segno.CheckpointQuery{Leaf: "leaf2"}, "ab3 aa2"},
		{segno.CheckpointQuery{Key: "key1"}, "aa5 aa1"},
		{segno.CheckpointQuery{Key: "key1", Thread: head.Thread}, "aa1"},
		{segno.CheckpointQuery{Key: "key2", Limit: 1}, "ab3"},
		{segno.CheckpointQuery{Workspace: "w1"}, "aa2 aa1"},
		{segno.CheckpointQuery{Workspace: "w1", Key: "key2"}, "aa2"},
		{segno.CheckpointQuery{IDPrefix: "aa"}, "aa5 aa2 aa1"},
		{segno.CheckpointQuery{IDPrefix: "aa", Thread: head.Thread}, "aa2 aa1"},
		{segno.CheckpointQuery{IDPrefix: "aa1"}, "aa1"},
		{segno.CheckpointQuery{IDPrefix: "aa", Key: "key2"}, "aa2"},
		{segno.CheckpointQuery{IDPrefix: "zz"}, ""},
		{segno.CheckpointQuery{Thread: "other"}, "aa5"},
		{segno.CheckpointQuery{Thread: "nobody"}, ""},
		{segno.CheckpointQuery{Thread: head.Thread, Before: 4, Limit: 2}, "aa2 aa1"},
		{segno.CheckpointQuery{Thread: head.Thread, Before: 4, Session: "s1"}, "aa2 aa1"},
		{segno.CheckpointQuery{Thread: head.Thread, Before: 3, Session: "s1"}, "aa1"},
		{segno.CheckpointQuery{Pinned: true}, ""},
	} {
		var got []string
		for _, id := range f.listed(x.q) {
			got = append(got, string(id))
		}
		f.same(fmt.Sprintf("%+v", x.q), strings.Join(got, " "), x.want)
	}
	for _, bad := range []segno.CheckpointQuery{{Before: 3}, {Limit: -1}, {Thread: "t", Before: -1}} {
		for _, err := range f.store.Checkpoints(f.Context(), bad) {
			f.kind(err, segno.KindInvalid)
		}
	}
}

// pages pages through a thread by chance while it grows.
func pages(f *fixture) {
	head := f.turns(f.thread(), 30)
	f.check(func(t *rapid.T) {
		all := f.list(segno.CheckpointQuery{Thread: head.Thread})
		var got []segno.CommitID
		for before := int64(0); ; {
			limit := rapid.IntRange(1, 12).Draw(t, "limit")
			found := f.list(segno.CheckpointQuery{Thread: head.Thread, Before: before, Limit: limit})
			for _, c := range found {
				got = append(got, c.ID)
				before = c.Seq
			}
			if rapid.Bool().Draw(t, "append") && len(all) < 80 {
				head = f.turns(head, 1)
			}
			if len(found) < limit {
				break
			}
		}
		want := make([]segno.CommitID, len(all))
		for i, c := range all {
			want[i] = c.ID
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pages: %v, at once: %v", got, want)
		}
	})
}

func listingWhileCommitting(f *fixture) {
	head := f.turns(f.thread(), 300)
	want := f.path(head.Head, 0)
	slices.Reverse(want)
	var got []segno.CommitID
	for c, err := range f.store.Checkpoints(f.Context(), segno.CheckpointQuery{Thread: head.Thread}) {
		f.ok(err)
		got = append(got, c.ID)
		if len(got)%50 == 1 {
			head = f.turns(head, 1)
		}
	}
	f.same("what was listed", got, want)
}

func threadOrder(f *fixture) {
	a, b, c := f.thread(), f.thread(), f.thread()
	f.same("as made", f.threads(segno.ThreadQuery{}), []segno.ThreadID{c.Thread, b.Thread, a.Thread})
	f.turns(a, 1)
	f.same("after a change", f.threads(segno.ThreadQuery{}), []segno.ThreadID{a.Thread, c.Thread, b.Thread})
	f.same("the first two", f.threads(segno.ThreadQuery{Limit: 2}), []segno.ThreadID{a.Thread, c.Thread})
	f.same("one", f.threads(segno.ThreadQuery{IDPrefix: string(b.Thread)}), []segno.ThreadID{b.Thread})
	made := f.base("somewhere", a.Head)
	made.Create.Workspace = "w"
	f.commit(made)
	for got, err := range f.store.Threads(f.Context(), segno.ThreadQuery{Workspace: "w"}) {
		f.ok(err)
		f.same("a thread", got, *made.Create)
	}
}
