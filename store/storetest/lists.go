package storetest

import (
	"slices"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

var listTests = []test{
	{"invalid queries", "a negative limit or cursor, and a cursor without a thread, are refused", func(f *fixture) {
		for _, q := range []segno.CheckpointQuery{{Before: 3}, {Limit: -1}, {Thread: "t", Before: -1}} {
			f.kind(lastErr(f.store.Checkpoints(f.Context(), q)), segno.KindInvalid)
		}
	}},
	{"pages", "pages with Before and Limit have each checkpoint once while the thread grows", testPages},
	{"listing while committing", "a caller may commit while it lists", func(f *fixture) {
		head := f.turns(f.newThread(), 300)
		want := f.line(head.Head, 0)
		slices.Reverse(want)
		var got []segno.CommitID
		for c, err := range f.store.Checkpoints(f.Context(), segno.CheckpointQuery{Thread: head.Thread}) {
			f.ok(err)
			got = append(got, c.ID)
			if len(got)%50 == 1 {
				head = f.turns(head, 1)
			}
		}
		f.same("the list", got, want)
	}},
	{"any query of checkpoints", "random queries of checkpoints return what a model returns", testAnyCheckpointQuery},
	{"any query of threads", "random queries of threads return what a model returns", testAnyThreadQuery},
}

func testPages(f *fixture) {
	head := f.turns(f.newThread(), 30)
	f.random(func(t *rapid.T) {
		want := f.find(segno.CheckpointQuery{Thread: head.Thread})
		var got []segno.CommitID
		for before := int64(0); ; {
			limit := rapid.IntRange(1, 12).Draw(t, "limit")
			page := f.checkpoints(segno.CheckpointQuery{Thread: head.Thread, Before: before, Limit: limit})
			for _, c := range page {
				got, before = append(got, c.ID), c.Seq
			}
			if rapid.Bool().Draw(t, "append") && len(want) < 80 {
				head = f.turns(head, 1)
			}
			if len(page) < limit {
				break
			}
		}
		f.same("the pages", got, want)
	})
}
