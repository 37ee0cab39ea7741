package storetest

import (
	"github.com/dalsegno/segno"
)

// renameTests test the titles of threads.
var renameTests = []test{
	{"rename", "a thread has the new title, and nothing else of it changes", func(f *fixture) {
		head := f.turns(f.newThread(), 2)
		before := f.threadOf(head.Thread)
		for _, title := range []string{"a title", "another, with \x00 and é", ""} {
			f.ok(f.renamer().Rename(f.Context(), head.Thread, f.threadOf(head.Thread).Title, title))
			want := before
			want.Title = title
			f.same("the thread", f.threadOf(head.Thread), want)
		}
		f.same("the head", f.head(head.Thread), head)
		f.same("the head after a commit", f.turns(head, 1).Turn, head.Turn+1)
	}},
	{"rename again", "a repeated rename succeeds; one from another title is KindConflict and changes nothing", func(f *fixture) {
		head := f.turns(f.newThread(), 1)
		old := f.threadOf(head.Thread).Title
		for range 2 {
			f.ok(f.renamer().Rename(f.Context(), head.Thread, old, "new"))
		}
		f.kind(f.renamer().Rename(f.Context(), head.Thread, "a third", "other"), segno.KindConflict)
		f.same("the title", f.threadOf(head.Thread).Title, "new")
	}},
	{"rename a missing thread", "renaming a thread that does not exist or is deleted is KindNotFound", func(f *fixture) {
		f.kind(f.renamer().Rename(f.Context(), "missing", "", "x"), segno.KindNotFound)
		head := f.turns(f.newThread(), 1)
		old := f.threadOf(head.Thread).Title
		f.ok(f.store.Delete(f.Context(), head.Thread))
		f.kind(f.renamer().Rename(f.Context(), head.Thread, old, "x"), segno.KindNotFound)
	}},
}

// reopenedRenameTests need a store that can be reopened.
var reopenedRenameTests = []test{
	{"reopen a renamed thread", "a title is durable", func(f *fixture) {
		head := f.turns(f.newThread(), 1)
		f.ok(f.renamer().Rename(f.Context(), head.Thread, f.threadOf(head.Thread).Title, "durable"))
		f.reopen()
		f.same("the title", f.threadOf(head.Thread).Title, "durable")
	}},
}

func (f *fixture) renamer() segno.Renamer { return f.store.(segno.Renamer) }

func (f *fixture) threadOf(id segno.ThreadID) segno.Thread {
	f.Helper()
	for t, err := range f.store.Threads(f.Context(), segno.ThreadQuery{IDPrefix: string(id)}) {
		f.ok(err)
		if t.ID == id {
			return t
		}
	}
	f.Fatalf("there is no thread %s", id)
	return segno.Thread{}
}
