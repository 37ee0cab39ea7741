package storetest

import (
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
)

// part makes a thread that is a part of another.
func (f *fixture) part(id string, of segno.ThreadID, name string) segno.Head {
	f.Helper()
	c := f.base(segno.ThreadID(id), "")
	c.Create.ParentThread, c.Create.Name = of, name
	return f.commit(c)
}

func parts(f *fixture) {
	for _, id := range []string{"one", "two", "three"} {
		f.part(id, "", "")
	}
	f.part("one.a", "one", "a")
	b := f.part("one.b", "one", "b")
	f.part("two.a", "two", "a")
	f.part("one.a.x", "one.a", "x")
	f.part("stray", "nobody", "a")
	f.turns(b, 1)
	for want, q := range map[string]segno.ThreadQuery{
		"one.b one.a": {ParentThread: "one"}, "two.a": {ParentThread: "two"}, "one.a.x": {ParentThread: "one.a"}, "": {ParentThread: "three"}, "stray": {ParentThread: "nobody"},
		"three two one": {TopLevel: true}, "three two": {TopLevel: true, Limit: 2}, "one.b": {ParentThread: "one", Limit: 1}, "one": {TopLevel: true, IDPrefix: "o"},
		"|1": {TopLevel: true, ParentThread: "one"}, "one.a": {ParentThread: "one", IDPrefix: "one.a"}, "|2": {ParentThread: "on"},
		"one.b stray one.a.x two.a one.a three two one": {},
	} {
		var got []string
		for _, id := range f.threads(q) {
			got = append(got, string(id))
		}
		want, _, _ = strings.Cut(want, "|")
		f.same(fmt.Sprintf("%+v", q), strings.Join(got, " "), want)
	}
	f.ok(f.store.Delete(f.Context(), "one.a"))
	f.same("after one was deleted", f.threads(segno.ThreadQuery{ParentThread: "one"}), []segno.ThreadID{"one.b"})
	f.ok(f.store.Delete(f.Context(), "one"))
	f.same("of a thread that was deleted", f.threads(segno.ThreadQuery{ParentThread: "one"}), []segno.ThreadID{"one.b"})
	f.same("the whole ones", f.threads(segno.ThreadQuery{TopLevel: true}), []segno.ThreadID{"three", "two"})
}

func hostileParts(f *fixture) {
	for i, id := range hostile() {
		f.part(fmt.Sprint("part ", i), segno.ThreadID(id), id)
	}
	for i, id := range hostile() {
		var got []segno.Thread
		for t, err := range f.store.Threads(f.Context(), segno.ThreadQuery{ParentThread: segno.ThreadID(id)}) {
			f.ok(err)
			got = append(got, t)
		}
		want := *f.base(segno.ThreadID(fmt.Sprint("part ", i)), "").Create
		want.ParentThread, want.Name = segno.ThreadID(id), id
		f.same("the parts", got, []segno.Thread{want})
	}
}
