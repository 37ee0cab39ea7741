package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

var saveTests = []test{
	{"round trip", "Load returns what Save stored: id, step, messages, state, interrupts, meta and times", func(f *fixture) {
		a := f.address()
		want := f.rich(a)
		got := f.save(want)
		if got.ID == "" || got.Step != 1 || got.Created.IsZero() || got.Updated.IsZero() {
			f.Fatalf("Save returned %+v", got)
		}
		want.ID, want.Step, want.Created, want.Updated = got.ID, got.Step, got.Created, got.Updated
		f.equal("the result of Save", got, want)
		f.isLatest(want)
		f.same("Decisions", f.latest(a).Decisions, []segno.Decision(nil))
		second := f.save(with(got, "two"))
		f.same("the step and whether the id is new", []any{second.Step, second.ID != got.ID}, []any{2, true})
		f.isLatest(second)
		f.same("the list", f.addresses(""), []segno.Address{a})
	}},
	{"nothing there", "a missing thread or namespace is KindNotFound, does not exist and is not listed", func(f *fixture) {
		f.same("the list", f.addresses(""), []segno.Address(nil))
		f.notFound(f.address())
		f.notFound(part(f.begin(f.address(), "hello").Address, "part"))
		f.same("the namespace", f.addresses("part"), []segno.Address(nil))
		f.kind(f.saveErr(segno.Saved{Address: f.address(), ID: "missing"}), segno.KindNotFound)
	}},
	{"list", "List yields each saved thread once, most recently saved first, with its newest step and time", func(f *fixture) {
		one, two, three := f.begin(f.address(), "1"), f.begin(f.address(), "2"), f.begin(f.address(), "3")
		f.same("the first list", f.addresses(""), []segno.Address{three.Address, two.Address, one.Address})
		f.advance(time.Minute)
		one = f.save(with(one, "again"))
		f.same("the list after a save", f.addresses(""), []segno.Address{one.Address, three.Address, two.Address})
		want := segno.SavedInfo{Address: one.Address, ID: one.ID, Step: 2, Created: one.Created, Updated: one.Updated}
		f.same("the newest", f.infos("")[0], want)
		for range f.saver.List(f.Context(), "") {
			break // the caller may stop early
		}
	}},
	{"list while writing", "a caller may save and delete while it lists; deleted threads may be missing from the list", func(f *fixture) {
		for range 4 {
			f.begin(f.address(), "x")
		}
		before := f.addresses("")
		var got []segno.Address
		for i, err := range f.saver.List(f.Context(), "") {
			f.ok(err)
			if got = append(got, i.Address); len(got) == 1 {
				f.remove(before[0])
				f.remove(before[2])
				continue
			}
			if i.Address != before[2] {
				f.save(with(f.latest(i.Address), "more"))
			}
		}
		f.same("the first listed", got[0], before[0])
		f.same("whether all others are listed", slices.Contains(got, before[1]) && slices.Contains(got, before[3]), true)
		f.same("how many are left", len(f.addresses("")), 2)
	}},
	{"delete", "a deleted thread is not loaded or listed, and neither it nor its name can be saved to again", func(f *fixture) {
		gone, kept := f.begin(f.address(), "gone"), f.begin(f.address(), "kept")
		namespace := f.begin(part(gone.Address, "part"), "x")
		f.remove(gone.Address)
		f.same("the list", f.addresses(""), []segno.Address{kept.Address})
		f.kind(f.saveErr(with(gone, "late")), segno.KindNotFound)
		for _, a := range []segno.Address{gone.Address, namespace.Address} {
			f.kind(f.saveErr(with(segno.Saved{Address: a}, "again")), segno.KindRefused)
			f.notFound(a)
		}
		f.isLatest(kept)
		f.remove(kept.Address)
		f.same("the empty list", f.infos(""), []segno.SavedInfo(nil))
	}},
	{"delete missing is fine", "deleting a missing thread or namespace is not an error", func(f *fixture) {
		a := f.address()
		f.remove(a)
		f.begin(a, "now")
		f.remove(part(a, "part"))
		f.exists(a, true)
		f.remove(a)
		f.remove(a)
		f.exists(a, false)
	}},
	{"created is kept", "Created is the time of the thread's first save", func(f *fixture) {
		first := f.begin(f.address(), "one")
		s := first
		for i := range 3 {
			f.advance(time.Hour)
			s = f.save(with(s, fmt.Sprint(i)))
			f.same("Created from Save", s.Created, first.Created)
			s = f.latest(s.Address)
			f.same("Created from Load", s.Created, first.Created)
			f.same("Created from List", f.infos("")[0].Created, first.Created)
		}
	}},
	{"clocks that go back", "Updated is the time of each save; the latest save is the newest whatever the clock shows", func(f *fixture) {
		one, two := f.begin(f.address(), "one"), f.begin(f.address(), "two")
		for _, skew := range []time.Duration{-2 * time.Hour, time.Hour, -time.Minute} {
			before := one.Updated
			f.advance(skew)
			one = f.save(with(one, skew.String()))
			if f.o.Clock != nil {
				f.same("Updated", one.Updated.Sub(before), skew)
			}
			f.isLatest(one)
			f.same("Updated from List", f.infos("")[0].Updated, one.Updated)
			f.same("the list", f.addresses(""), []segno.Address{one.Address, two.Address})
			two = f.save(with(two, skew.String()))
			f.same("the list", f.addresses(""), []segno.Address{two.Address, one.Address})
			f.advance(-skew)
			one = f.save(with(one, "same time"))
		}
	}},
	{"steps", "a save adds 1 to the step, or takes a given step that is higher", func(f *fixture) {
		s := f.begin(f.address(), "one")
		for _, x := range []struct{ given, want int }{{1, 2}, {2, 3}, {0, 4}, {3, 5}, {9, 9}, {1, 10}, {100, 100}} {
			s.Step = x.given
			s = f.save(s)
			f.same(fmt.Sprint("the step when given ", x.given), s.Step, x.want)
			s = f.latest(s.Address)
			f.same("the step from Load", s.Step, x.want)
		}
	}},
	{"meta is of one checkpoint", "the next checkpoint does not inherit Meta", func(f *fixture) {
		s := segno.Saved{Address: f.address()}
		for _, meta := range []map[string]string{{"a": "1"}, {"b": "\x00é", "": ""}, nil} {
			want := viewOf(segno.Saved{Meta: meta}).Meta
			s = f.save(withMeta(s, meta))
			f.same("Meta", viewOf(f.latest(s.Address)).Meta, want)
		}
	}},
	{"an ended context", "a call with an ended context changes nothing and is KindCancelled", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		s := f.begin(f.address(), "one")
		for _, err := range []error{
			errOf(f.saver.Save(ctx, with(s, "two"))),
			errOf(f.saver.Save(ctx, segno.Saved{Address: f.address(), Messages: []json.RawMessage{message("x")}})),
			errOf(f.saver.Load(ctx, s.Address)),
			errOf(f.saver.Exists(ctx, s.Address)),
			lastErr(f.saver.List(ctx, "")),
			f.saver.Delete(ctx, s.Address),
		} {
			f.kind(err, segno.KindCancelled)
		}
		f.same("the list", f.addresses(""), []segno.Address{s.Address})
		f.isLatest(s)
	}},
	{"a stale save", "a save that follows an older checkpoint is a conflict with the newest id and changes nothing", func(f *fixture) {
		old := f.begin(f.address(), "one")
		now := f.save(with(old, "two"))
		f.same("the actual head", f.conflict(f.saveErr(with(old, "late"))).Head, now.ID)
		f.isLatest(now)
		won := f.save(with(f.latest(old.Address), "after all"))
		f.same("the number of messages", len(f.latest(old.Address).Messages), 3)
		f.isLatest(won)
	}},
	{"a thread begins once", "a first save of an existing thread is a conflict and overwrites nothing", func(f *fixture) {
		s := f.begin(f.address(), "one")
		f.same("the actual head", f.conflict(f.saveErr(with(segno.Saved{Address: s.Address}, "again"))).Head, s.ID)
		f.isLatest(s)
	}},
	{"one of K saves", "of K concurrent saves after one checkpoint one succeeds; the others get the winner's id", func(f *fixture) {
		raceSaves(f, f.saver)
	}},
}

var secondSaverTests = []test{
	{"one of K saves in two savers", "two savers of the same data exclude each other like two goroutines", func(f *fixture) {
		raceSaves(f, f.saver, f.another())
	}},
}

// raceSaves saves concurrently after one checkpoint, in several rounds.
func raceSaves(f *fixture, savers ...segno.Saver) {
	const rounds = 6
	s := segno.Saved{Address: f.address()}
	for round := range rounds {
		won, lost := race(f, 8, func(k int) (segno.Saved, error) {
			return savers[k%len(savers)].Save(f.Context(), with(s, fmt.Sprintf("round %d saver %d", round, k)))
		})
		for _, err := range lost {
			f.same("the actual head", f.conflict(err).Head, won.ID)
		}
		f.isLatest(won)
		s = won
	}
	f.same("messages and step", []int{len(s.Messages), s.Step}, []int{rounds, rounds})
}
