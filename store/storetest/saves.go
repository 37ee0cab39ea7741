package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

func saves() []clause {
	return []clause{
		{"round trip", "what was saved is what is loaded: its id, step, messages, state, interrupts, meta and times", savedRoundTrip},
		{"nothing there", "loading what is not there is not found, and nothing exists or is listed", nothingSaved},
		{"the second save replaces the latest", "the newest save is the one that is loaded, and its thread is listed once", secondSave},
		{"exists", "a thread exists from its first save until it is deleted", exists},
		{"list", "each thread that saved something is listed once, the most recently saved first, with its newest step and time", savedList},
		{"list while saving", "whoever lists may save meanwhile", listWhileSaving},
		{"list while deleting", "whoever lists may delete meanwhile: what goes is not listed, and is no error", listWhileDeleting},
		{"delete", "what was deleted is not loaded and not listed, and a save onto it is refused", savedDelete},
		{"a deleted name", "the name of a deleted thread is not used again: a save under it is refused, and so is its namespace's", deletedName},
		{"delete missing is fine", "deleting what is not there is no error", deleteMissing},
		{"the list after all are deleted is empty", "a list of nothing is no error", listAfterAll},
		{"created is kept", "a thread's creation time is that of its first save, whatever is saved later", createdIsKept},
		{"updated changes", "each save has its own time, and the list shows the newest", updatedChanges},
		{"clocks that go back", "the newest is the one that was saved last, whatever the savers' clocks say", clocksGoBack},
		{"steps", "a step counts the saves of a line by itself, and goes where a higher one is given", savedSteps},
		{"meta is of one checkpoint", "meta says something of one checkpoint and is not inherited", metaIsOfOne},
		{"an ended context", "a call whose context has ended does nothing and says so", endedSave},
	}
}

// rich is a checkpoint with something in every field.
func (f *fixture) rich(a saver.ThreadKey) saver.Snapshot {
	s := more(saver.Snapshot{ThreadKey: a, Meta: map[string]string{"source": "input", "run_id": "r1"}}, "hello", "hi")
	s.State = state("todos", `[{"id":1,"done":false}]`, "files", `{"a.txt":"x"}`, "score", `42`, "none", `null`)
	s.Interrupts = []segno.Interrupt{f.question(a, `{"to":"a@example.com"}`, segno.Approve, segno.Reject)}
	return s
}

func savedRoundTrip(f *fixture) {
	a := f.address()
	want := f.rich(a)
	got := f.save(want)
	if got.ID == "" || got.Step != 1 || got.Created.IsZero() || got.Updated.IsZero() || got.Kept != 2 {
		f.Fatalf("Save returned %+v", got)
	}
	want.ID, want.Step, want.Created, want.Updated = got.ID, got.Step, got.Created, got.Updated
	f.alike("what Save returned", got, want)
	f.stands(want)
	f.same("Kept, loaded", f.get(a).Kept, 2)
	f.same("Decisions, loaded", f.get(a).Decisions, []segno.Decision(nil))
}

func nothingSaved(f *fixture) {
	f.same("the list", f.saved(""), []saver.ThreadKey(nil))
	f.absent(f.address())
	a := f.begin(f.address(), "hello").ThreadKey
	a.Namespace = "part"
	f.absent(a)
	f.same("the namespace", f.saved("part"), []saver.ThreadKey(nil))
	_, err := f.saver.Save(f.Context(), saver.Snapshot{ThreadKey: f.address(), ID: "nobody"})
	f.kind(err, segno.KindNotFound)
}

func secondSave(f *fixture) {
	first := f.begin(f.address(), "one")
	second := f.save(more(first, "two"))
	f.same("the step", second.Step, 2)
	if first.ID == second.ID {
		f.Fatalf("both are %q", first.ID)
	}
	f.stands(second)
	f.same("the list", f.saved(""), []saver.ThreadKey{first.ThreadKey})
}

func exists(f *fixture) {
	a := f.address()
	f.exists(a, false)
	f.begin(a, "hello")
	f.exists(a, true)
	f.ok(f.saver.Delete(f.Context(), a))
	f.exists(a, false)
}

func savedList(f *fixture) {
	one, two, three := f.begin(f.address(), "1"), f.begin(f.address(), "2"), f.begin(f.address(), "3")
	f.same("as made", f.saved(""), []saver.ThreadKey{three.ThreadKey, two.ThreadKey, one.ThreadKey})
	f.tick(time.Minute)
	one = f.save(more(one, "again"))
	f.same("after a save", f.saved(""), []saver.ThreadKey{one.ThreadKey, three.ThreadKey, two.ThreadKey})
	f.same("what is told of it", f.infos("")[0], saver.Info{ThreadKey: one.ThreadKey, ID: one.ID, Step: 2, Created: one.Created, Updated: one.Updated})
	for range f.saver.List(f.Context(), "") {
		break // a list may be left at any time
	}
}

func listWhileSaving(f *fixture) {
	var want []saver.ThreadKey
	for range 5 {
		want = append(want, f.begin(f.address(), "x").ThreadKey)
	}
	var got []saver.ThreadKey
	for i, err := range f.saver.List(f.Context(), "") {
		f.ok(err)
		got = append(got, i.ThreadKey)
		f.save(more(f.get(i.ThreadKey), "more"))
	}
	for _, a := range want {
		if !slices.Contains(got, a) {
			f.Fatalf("%v is not listed: %v", a, got)
		}
	}
}

func listWhileDeleting(f *fixture) {
	for range 4 {
		f.begin(f.address(), "x")
	}
	all := f.saved("")
	var got []saver.ThreadKey
	for i, err := range f.saver.List(f.Context(), "") {
		f.ok(err)
		if got = append(got, i.ThreadKey); len(got) == 1 {
			f.ok(f.saver.Delete(f.Context(), all[0]))
			f.ok(f.saver.Delete(f.Context(), all[2]))
		}
	}
	f.same("the first listed", got[0], all[0])
	f.same("the last listed", got[len(got)-1], all[3])
	f.same("what is left", f.saved(""), []saver.ThreadKey{all[1], all[3]})
}

func deletedName(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	part := saver.ThreadKey{Thread: a.Thread, Namespace: "part"}
	f.begin(part, "x")
	f.ok(f.saver.Delete(f.Context(), a))
	for _, gone := range []saver.ThreadKey{a, part} {
		_, err := f.saver.Save(f.Context(), more(saver.Snapshot{ThreadKey: gone}, "anew"))
		f.kind(err, segno.KindRefused)
		f.absent(gone)
	}
	f.same("the list", f.saved(""), []saver.ThreadKey(nil))
}

func savedDelete(f *fixture) {
	gone, kept := f.begin(f.address(), "gone"), f.begin(f.address(), "kept")
	f.ok(f.saver.Delete(f.Context(), gone.ThreadKey))
	f.absent(gone.ThreadKey)
	f.same("the list", f.saved(""), []saver.ThreadKey{kept.ThreadKey})
	_, err := f.saver.Save(f.Context(), more(gone, "late"))
	f.kind(err, segno.KindNotFound)
	f.absent(gone.ThreadKey)
	f.stands(kept)
}

func deleteMissing(f *fixture) {
	a := f.address()
	f.ok(f.saver.Delete(f.Context(), a))
	f.begin(a, "now")
	a.Namespace = "part"
	f.ok(f.saver.Delete(f.Context(), a))
	a.Namespace = ""
	f.exists(a, true)
	f.ok(f.saver.Delete(f.Context(), a))
	f.ok(f.saver.Delete(f.Context(), a))
}

func listAfterAll(f *fixture) {
	for range 3 {
		f.begin(f.address(), "x")
	}
	for _, a := range f.saved("") {
		f.ok(f.saver.Delete(f.Context(), a))
	}
	f.same("the list", f.infos(""), []saver.Info(nil))
}

func createdIsKept(f *fixture) {
	first := f.begin(f.address(), "one")
	s := first
	for i := range 3 {
		f.tick(time.Hour)
		s = f.save(more(s, fmt.Sprint(i)))
		f.same("created, from Save", s.Created, first.Created)
		f.same("created, loaded", f.get(s.ThreadKey).Created, first.Created)
		f.same("created, listed", f.infos("")[0].Created, first.Created)
		s = f.get(s.ThreadKey)
	}
}

func updatedChanges(f *fixture) {
	s := f.begin(f.address(), "one")
	for i := range 3 {
		f.tick(time.Hour)
		next := f.save(more(s, fmt.Sprint(i)))
		if next.Updated.Before(s.Updated) || f.o.Clock != nil && next.Updated.Sub(s.Updated) != time.Hour {
			f.Fatalf("updated went from %v to %v", s.Updated, next.Updated)
		}
		f.same("updated, loaded", f.get(s.ThreadKey).Updated, next.Updated)
		f.same("updated, listed", f.infos("")[0].Updated, next.Updated)
		s = next
	}
}

func clocksGoBack(f *fixture) {
	one, two := f.begin(f.address(), "one"), f.begin(f.address(), "two")
	for _, skew := range []time.Duration{-2 * time.Hour, time.Hour, -time.Minute} {
		f.tick(skew)
		one = f.save(more(one, skew.String()))
		f.stands(one)
		f.same("the list", f.saved(""), []saver.ThreadKey{one.ThreadKey, two.ThreadKey})
		f.tick(skew)
		two = f.save(more(two, skew.String()))
		f.stands(two)
		f.same("the list", f.saved(""), []saver.ThreadKey{two.ThreadKey, one.ThreadKey})
	}
	f.same("the steps", []int{one.Step, two.Step}, []int{4, 4})
}

func savedSteps(f *fixture) {
	s := f.begin(f.address(), "one")
	for want := 2; want < 5; want++ {
		s = f.save(s) // as Save returned it
		f.same("the step", s.Step, want)
		s = f.get(s.ThreadKey)
		f.same("the step, loaded", s.Step, want)
	}
	for i, given := range []int{0, 3, 9, 1, 100} {
		s.Step = given
		s = f.save(s)
		f.same(fmt.Sprint("the step when given ", given), s.Step, []int{5, 6, 9, 10, 100}[i])
		f.same("the step, loaded", f.get(s.ThreadKey).Step, s.Step)
	}
}

func metaIsOfOne(f *fixture) {
	s := more(saver.Snapshot{ThreadKey: f.address(), Meta: map[string]string{"a": "1"}}, "x")
	s = f.save(s)
	f.same("its meta", f.get(s.ThreadKey).Meta, map[string]string{"a": "1"})
	s.Meta = map[string]string{"b": "\x00é", "": ""}
	s = f.save(s)
	f.same("another's", f.get(s.ThreadKey).Meta, map[string]string{"b": "\x00é", "": ""})
	s.Meta = nil
	f.same("of one that says nothing", len(f.get(f.save(s).ThreadKey).Meta), 0)
}

func endedSave(f *fixture) {
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	s := f.begin(f.address(), "one")
	_, err := f.saver.Save(ctx, more(s, "two"))
	f.kind(err, segno.KindCancelled)
	f.stands(s)
	_, err = f.saver.Save(ctx, saver.Snapshot{ThreadKey: f.address(), Messages: []json.RawMessage{said("x")}})
	f.kind(err, segno.KindCancelled)
	f.same("the list", f.saved(""), []saver.ThreadKey{s.ThreadKey})
	_, err = f.saver.Load(ctx, s.ThreadKey)
	f.kind(err, segno.KindCancelled)
	_, err = f.saver.Exists(ctx, s.ThreadKey)
	f.kind(err, segno.KindCancelled)
	for _, err := range f.saver.List(ctx, "") {
		f.kind(err, segno.KindCancelled)
	}
	f.kind(f.saver.Delete(ctx, s.ThreadKey), segno.KindCancelled)
	f.stands(s)
}
