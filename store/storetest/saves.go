package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// saveTests test saving, loading, listing and deleting threads.
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
		f.same("the list", f.addresses(""), []saver.ThreadKey{a})
	}},
	{"nothing there", "a missing thread or namespace is KindNotFound, does not exist and is not listed", func(f *fixture) {
		f.same("the list", f.addresses(""), []saver.ThreadKey(nil))
		f.notFound(f.address())
		f.notFound(part(f.begin(f.address(), "hello").ThreadKey, "part"))
		f.same("the namespace", f.addresses("part"), []saver.ThreadKey(nil))
		f.kind(f.saveErr(saver.Snapshot{ThreadKey: f.address(), ID: "missing"}), segno.KindNotFound)
	}},
	{"list", "List yields each saved thread once, most recently saved first, with its newest step and time", func(f *fixture) {
		one, two, three := f.begin(f.address(), "1"), f.begin(f.address(), "2"), f.begin(f.address(), "3")
		f.same("the first list", f.addresses(""), []saver.ThreadKey{three.ThreadKey, two.ThreadKey, one.ThreadKey})
		f.advance(time.Minute)
		one = f.save(with(one, "again"))
		f.same("the list after a save", f.addresses(""), []saver.ThreadKey{one.ThreadKey, three.ThreadKey, two.ThreadKey})
		want := saver.Info{ThreadKey: one.ThreadKey, ID: one.ID, Step: 2, Created: one.Created, Updated: one.Updated}
		f.same("the newest", f.infos("")[0], want)
		for _, err := range f.saver.List(f.Context(), "") {
			f.ok(err)
			break // the caller may stop early
		}
	}},
	{"list while writing", "a caller may save and delete threads while it lists them", func(f *fixture) {
		for range 4 {
			f.begin(f.address(), "x")
		}
		before, got := f.addresses(""), map[saver.ThreadKey]bool{}
		for i, err := range f.saver.List(f.Context(), "") {
			f.ok(err)
			if got[i.ThreadKey] = true; len(got) == 1 {
				f.remove(before[2])
			} else if i.ThreadKey != before[2] {
				f.save(with(f.latest(i.ThreadKey), "more"))
			}
		}
		f.same("whether all others are listed", got[before[0]] && got[before[1]] && got[before[3]], true)
		f.same("how many are left", len(f.addresses("")), 3)
	}},
	{"delete", "a deleted thread is not loaded or listed, and neither it nor its name can be saved to again", func(f *fixture) {
		gone, kept := f.begin(f.address(), "gone"), f.begin(f.address(), "kept")
		namespace := f.begin(part(gone.ThreadKey, "part"), "x")
		f.remove(gone.ThreadKey)
		f.same("the list", f.addresses(""), []saver.ThreadKey{kept.ThreadKey})
		f.kind(f.saveErr(with(gone, "late")), segno.KindNotFound)
		for _, a := range []saver.ThreadKey{gone.ThreadKey, namespace.ThreadKey} {
			f.kind(f.saveErr(with(saver.Snapshot{ThreadKey: a}, "again")), segno.KindRefused)
			f.notFound(a)
		}
		f.isLatest(kept)
		f.remove(kept.ThreadKey)
		f.same("the empty list", f.infos(""), []saver.Info(nil))
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
	{"times", "Created is the time of the first save, Updated that of the last; the order of a list does not use the clock", func(f *fixture) {
		one, two := f.begin(f.address(), "one"), f.begin(f.address(), "two")
		created := one.Created
		for _, skew := range []time.Duration{time.Hour, -2 * time.Hour, -time.Minute} {
			before := one.Updated
			f.advance(skew)
			one = f.save(with(one, skew.String()))
			if f.o.Clock != nil {
				f.same("Updated", one.Updated.Sub(before), skew)
			}
			f.isLatest(one)
			info := f.infos("")[0]
			f.same("Created and Updated", []time.Time{one.Created, info.Created, info.Updated}, []time.Time{created, created, one.Updated})
			f.same("the list", f.addresses(""), []saver.ThreadKey{one.ThreadKey, two.ThreadKey})
			two = f.save(with(two, skew.String()))
			f.same("the list", f.addresses(""), []saver.ThreadKey{two.ThreadKey, one.ThreadKey})
			one = f.latest(one.ThreadKey)
		}
	}},
	{"steps", "a save adds 1 to the step, or takes a given step that is higher", func(f *fixture) {
		s := f.begin(f.address(), "one")
		for _, x := range []struct{ given, want int }{{1, 2}, {2, 3}, {0, 4}, {3, 5}, {9, 9}, {1, 10}, {100, 100}} {
			s.Step = x.given
			s = f.save(s)
			f.same(fmt.Sprint("the step when given ", x.given), s.Step, x.want)
			s = f.latest(s.ThreadKey)
			f.same("the step from Load", s.Step, x.want)
		}
	}},
	{"an ended context", "a call with an ended context changes nothing and is KindCancelled", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		s := f.begin(f.address(), "one")
		for _, err := range []error{
			errOf(f.saver.Save(ctx, with(s, "two"))),
			errOf(f.saver.Save(ctx, saver.Snapshot{ThreadKey: f.address(), Messages: []json.RawMessage{message("x")}})),
			errOf(f.saver.Load(ctx, s.ThreadKey)),
			errOf(f.saver.Exists(ctx, s.ThreadKey)),
			lastErr(f.saver.List(ctx, "")),
			f.saver.Delete(ctx, s.ThreadKey),
		} {
			f.kind(err, segno.KindCancelled)
		}
		f.same("the list", f.addresses(""), []saver.ThreadKey{s.ThreadKey})
		f.isLatest(s)
	}},
	{"a stale save", "a save after an older checkpoint, or none, is a conflict and changes nothing", func(f *fixture) {
		old := f.begin(f.address(), "one")
		now := f.save(with(old, "two"))
		for _, late := range []saver.Snapshot{with(old, "late"), with(saver.Snapshot{ThreadKey: old.ThreadKey}, "again")} {
			f.same("the actual head", f.conflict(f.saveErr(late)).Head, now.ID)
			f.isLatest(now)
		}
		won := f.save(with(f.latest(old.ThreadKey), "after all"))
		f.same("the number of messages", len(f.latest(old.ThreadKey).Messages), 3)
		f.isLatest(won)
	}},
	{"one of K saves", "of K concurrent saves after one checkpoint one succeeds; the others get the winner's id", func(f *fixture) {
		raceSaves(f, f.saver)
	}},
}

// secondSaverTests open the data of the saver twice.
var secondSaverTests = []test{
	{"one of K saves in two savers", "two savers of the same data exclude each other like two goroutines", func(f *fixture) {
		raceSaves(f, f.saver, f.another())
	}},
}

// raceSaves makes concurrent saves after one checkpoint, in several rounds.
func raceSaves(f *fixture, savers ...saver.Saver) {
	const rounds = 6
	s := saver.Snapshot{ThreadKey: f.address()}
	for round := range rounds {
		won, lost := race(f, 8, func(k int) (saver.Snapshot, error) {
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
