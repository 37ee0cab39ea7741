package storetest

import (
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
)

// mark commits a checkpoint that ends a step and says something of itself.
func (f *fixture) mark(head segno.Head, id string, step int, meta map[string]string) segno.Head {
	f.Helper()
	c := f.next(head)
	c.ID, c.Checkpoint.Kind, c.Checkpoint.Step, c.Checkpoint.Meta = segno.CommitID(id), segno.CheckpointStep, step, meta
	return f.commit(c)
}

// answers compares queries with the ids they are to find, newest first.
func (f *fixture) answers(want map[string]segno.CheckpointQuery) {
	f.Helper()
	for ids, q := range want {
		var got []string
		for _, id := range f.listed(q) {
			got = append(got, string(id))
		}
		ids, _, _ = strings.Cut(ids, "|") // what follows only tells two queries apart
		f.same(fmt.Sprintf("%+v", q), strings.Join(got, " "), ids)
	}
}

func steps(f *fixture) {
	head := f.thread()
	for i := range 4 {
		head = f.mark(head, fmt.Sprint("s", i+1), i+1, nil)
	}
	second := f.path(head.Head, 3)[0]
	head = f.commit(f.move(head, second, head.Tip))
	head = f.mark(head, "again3", 3, nil)
	other := f.mark(f.thread(), "other2", 2, nil)
	f.mark(other, "far", 1<<40, nil)
	f.answers(map[string]segno.CheckpointQuery{
		"other2 s2": {Step: 2}, "s2": {Step: 2, Thread: head.Thread}, "again3 s3": {Step: 3}, "again3": {Step: 3, Limit: 1},
		"s3": {Step: 3, Thread: head.Thread, Before: 6}, "": {Step: 5}, "|": {Step: 3, Thread: other.Thread}, "far": {Step: 1 << 40},
	})
	f.same("the step, listed", f.list(segno.CheckpointQuery{Step: 1 << 40})[0].Step, 1<<40)
	f.same("the step, loaded", f.load("s2")[2].Checkpoint.Step, 2)
}

func meta(f *fixture) {
	head := f.thread()
	type pairs = map[string]string
	odd := pairs{"": "", "a\x00b": "\xff", "'; --": "%", "é": strings.Repeat("v", 1<<16), "$.a": `{"b":1}`}
	for i, m := range []pairs{{"source": "input", "n": "1"}, {"source": "loop", "n": "1"}, {"source": "loop", "n": "2"}, nil, {}, odd} {
		head = f.mark(head, fmt.Sprint("m", i), i+1, m)
	}
	other := f.mark(f.thread(), "other", 1, pairs{"source": "loop", "n": "1"})
	f.answers(map[string]segno.CheckpointQuery{
		"m0": {Meta: pairs{"source": "input"}}, "other m2 m1": {Meta: pairs{"source": "loop"}}, "other m1": {Meta: pairs{"source": "loop", "n": "1"}},
		"m1": {Meta: pairs{"source": "loop", "n": "1"}, Thread: head.Thread}, "other": {Meta: pairs{"source": "loop"}, Thread: other.Thread},
		"": {Meta: pairs{"source": "loop", "n": "3"}}, "|1": {Meta: pairs{"source": ""}}, "|2": {Meta: pairs{"sourc": "loop"}}, "|3": {Meta: pairs{"source": "loo"}},
		"|4": {Meta: pairs{"SOURCE": "loop"}}, "|5": {Meta: pairs{"n": "source"}}, "m2": {Meta: pairs{"source": "loop"}, Step: 3},
		"m5": {Meta: pairs{"": ""}}, "m5|1": {Meta: odd}, "m5|2": {Meta: pairs{"a\x00b": "\xff"}}, "m5|3": {Meta: pairs{"'; --": "%"}}, "|6": {Meta: pairs{"%": "%"}},
		"|7": {Meta: pairs{"": "", "gone": ""}}, "m5 m4 m3 m2 m1 m0": {Meta: pairs{}, IDPrefix: "m"}, "m5 m4 m3 m2 m1 m0|1": {Meta: pairs{}, IDPrefix: "m", Thread: head.Thread},
	})
	f.same("meta, listed", f.list(segno.CheckpointQuery{IDPrefix: "m5"})[0].Meta, odd)
	f.same("meta, loaded", f.load("m5")[6].Checkpoint.Meta, odd)
}

func limitsComeLast(f *fixture) {
	head := f.thread()
	for i := range 12 {
		head = f.mark(head, fmt.Sprint("c", i), i%4+1, map[string]string{"odd": fmt.Sprint(i % 2), "third": fmt.Sprint(i % 3)})
	}
	odd := map[string]string{"odd": "1"}
	f.answers(map[string]segno.CheckpointQuery{
		"c11 c9": {Meta: odd, Limit: 2}, "c11 c9 c7 c5 c3 c1": {Meta: odd}, "c11 c9 c7 c5 c3 c1|": {Meta: odd, Limit: 99},
		"c10 c6": {Step: 3, Limit: 2}, "c9 c3": {Meta: map[string]string{"odd": "1", "third": "0"}, Limit: 2},
		"c7 c5": {Meta: odd, Thread: head.Thread, Before: 11, Limit: 2}, "c5": {Meta: odd, Thread: head.Thread, Before: 10, Step: 2, Limit: 1},
	})
	var all []segno.CommitID
	for before := int64(0); ; {
		page := f.list(segno.CheckpointQuery{Thread: head.Thread, Meta: odd, Before: before, Limit: 1})
		if len(page) == 0 {
			break
		}
		all, before = append(all, page[0].ID), page[0].Seq
	}
	f.same("pages of one", all, f.listed(segno.CheckpointQuery{Meta: odd}))
}
