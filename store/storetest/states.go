package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// states are the clauses of what a line adds up to.
func states() []clause {
	return []clause{
		{"an intent without a result", "an intent whose result was never committed is unknown, and stays so until one is", intentWithoutResult},
		{"an answer is recorded", "an answer is kept with its actor, time, words and edited arguments, on its own line alone", answerRecorded},
		{"no name leads into a namespace", "a thread that is called as a namespace's own thread is called cannot be saved, loaded or deleted", noNameLeadsIn},
		{"listed in mid-step", "a thread is listed with its newest checkpoint's step and time, whatever was committed after", listedInMidStep},
		{"no clock given", "a saver whose Now is not set reads the time of day", noClockGiven},
		{"an id each", "a question without an id, and two with one, are refused", anIDEach},
		{"damage is not absence", "a checkpoint that is there and cannot be read is damaged, not missing, and is not saved over", damageIsNotAbsence},
		{"a save is whole", "whoever reads while others save sees each save whole or not at all", saveIsWhole},
		{"a save costs its change", "what a save takes does not depend on how much was said before", saveCostsItsChange},
		{"one save, one commit", "a save is one commit, and of what did not change it holds nothing", oneCommit},
	}
}

// reopenings are the clauses of what outlives a process.
func reopenings() []clause {
	return []clause{
		{"saves", "everything that was saved is there again: states, histories, namespaces, forks, and where each stands", savesReopened},
		{"interrupts", "what waits is there again, is answered by another process, and stays answered", interruptsReopened},
	}
}

// lostEffects are the clauses of what only a store beneath shows after a reopening.
func lostEffects() []clause {
	return []clause{{"unknown effects", "an intent without a result is still unknown to the next process", unknownReopened}}
}

func intentWithoutResult(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	one, two := intent("1", "send_email", `{"to":"a"}`), intent("2", "charge", `{"sum":9007199254740993}`)
	f.after(a, one, two)
	f.same("unknown", f.fold(a).Unknown, []segno.Entry{one, two})
	s := f.save(more(f.get(a), "on"))
	f.same("unknown after a save", f.fold(a).Unknown, []segno.Entry{one, two})
	f.after(a, segno.Entry{Kind: segno.EntryResult, ID: "2", Name: "charge", Time: epoch, Body: json.RawMessage(`"ok"`)})
	f.same("unknown after a result", f.fold(a).Unknown, []segno.Entry{one})
	line, err := f.store.Load(f.Context(), s.ID, segno.Window{Entries: true})
	f.ok(err)
	then, err := segno.Fold(line)
	f.ok(err)
	f.same("unknown at the save before", then.Unknown, []segno.Entry{one, two})
}

func answerRecorded(f *fixture) {
	s := f.asked(2)
	edit := segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: segno.Edit, Args: json.RawMessage(`{"to":"b@example.com"}`), Actor: "ann\x00", Time: epoch.Add(time.Nanosecond)}
	reject := segno.Decision{Interrupt: s.Interrupts[1].ID, Kind: segno.Reject, Text: "it is late", Actor: "bob"}
	s = f.save(decided(s, edit))
	f.tick(time.Minute)
	s = f.save(decided(s, reject))
	reject.Time = s.Updated
	got := f.fold(s.ThreadKey).Answers
	f.same("the first answer", got[edit.Interrupt].Decision, edit)
	f.same("the second answer, timed by the saver", got[reject.Interrupt].Decision, reject)
	f.undo(s.ThreadKey, 1)
	f.same("answers after an undo", len(f.fold(s.ThreadKey).Answers), 1)
	f.redo(s.ThreadKey, 1)
	f.same("answers after a redo", len(f.fold(s.ThreadKey).Answers), 2)
}

func noNameLeadsIn(f *fixture) {
	part := f.begin(saver.ThreadKey{Thread: f.id("thread"), Namespace: "part"}, "mine")
	forged := saver.ThreadKey{Thread: string(part.ThreadKey.ID())}
	_, err := f.saver.Save(f.Context(), more(saver.Snapshot{ThreadKey: forged, ID: part.ID}, "forged"))
	f.kind(err, segno.KindInvalid)
	_, err = f.saver.Load(f.Context(), forged)
	f.kind(err, segno.KindInvalid)
	f.kind(f.saver.Delete(f.Context(), forged), segno.KindInvalid)
	_, err = f.saver.(Forker).Fork(f.Context(), part.ID, forged)
	f.kind(err, segno.KindInvalid)
	f.same("the list", f.saved(""), []saver.ThreadKey(nil))
	f.stands(part)
}

func listedInMidStep(f *fixture) {
	s := f.begin(f.address(), "one")
	f.tick(time.Minute)
	s = f.save(more(s, "two"))
	for i := range 3 {
		f.after(s.ThreadKey, intent(f.id("call"), "tool", `1`))
		got := f.infos("")[0]
		f.same(fmt.Sprint("step and time after ", i+1), []any{got.Step, got.Updated.Equal(s.Updated), got.Created.Equal(s.Created)}, []any{2, true, true})
	}
}

func noClockGiven(f *fixture) {
	v := &saver.StoreSaver{Store: f.store}
	s, err := v.Save(f.Context(), saver.Snapshot{ThreadKey: f.address()})
	f.ok(err)
	f.same("whether it has a time", s.Updated.IsZero(), false)
}

func anIDEach(f *fixture) {
	s := f.begin(f.address(), "hello")
	one, two := f.question(s.ThreadKey, `{}`, segno.Approve), f.question(s.ThreadKey, `{"x":1}`, segno.Approve)
	two.ID = one.ID
	nameless := one
	nameless.ID = ""
	for _, bad := range [][]segno.Interrupt{{one, two}, {nameless}} {
		s.Interrupts = bad
		_, err := f.saver.Save(f.Context(), s)
		f.kind(err, segno.KindInvalid)
	}
	f.same("what waits", len(waiting(f.get(s.ThreadKey))), 0)
}

func damageIsNotAbsence(f *fixture) {
	good := f.begin(f.address(), "one")
	a := good.ThreadKey
	f.after(a, segno.Entry{Kind: segno.EntryInterrupt, ID: "1", Body: json.RawMessage(`"no interrupt"`)})
	_, err := f.saver.Load(f.Context(), a)
	f.kind(err, segno.KindCorrupt)
	f.exists(a, true)
	f.same("the list", f.saved(""), []saver.ThreadKey{a})
	_, err = f.saver.Save(f.Context(), more(saver.Snapshot{ThreadKey: a}, "as if it were new"))
	f.kind(err, segno.KindConflict)
	f.alike("the checkpoint before", f.at(a, good.ID), good)
	f.likeFork("a fork of it", f.fork(good.ID, f.address()), good)
}

func saveIsWhole(f *fixture) {
	s := f.save(saver.Snapshot{ThreadKey: f.address(), Messages: []json.RawMessage{said("0")}, State: state("n", `1`)})
	a := s.ThreadKey
	ctx, cancel := context.WithCancel(f.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for range 3 {
		group.Go(func() {
			for ctx.Err() == nil {
				got, err := f.saver.Load(f.Context(), a)
				if err != nil {
					f.Errorf("load: %v", err)
					return
				}
				var n int
				if err := json.Unmarshal(got.State["n"], &n); err != nil || n != len(got.Messages) || n != got.Step {
					f.Errorf("a reader saw step %d with %d messages and n = %d (%v)", got.Step, len(got.Messages), n, err)
					return
				}
			}
		})
	}
	for i := range 30 {
		s = more(s, "x")
		n, err := json.Marshal(i + 2)
		f.ok(err)
		s.State = map[string]json.RawMessage{"n": n}
		s = f.save(s)
	}
}

func oneCommit(f *fixture) {
	s := f.save(f.rich(f.address()))
	before := f.head(s.ThreadKey.ID())
	s = more(s, "one more")
	s.State["score"] = json.RawMessage(`43`)
	s = f.save(s)
	f.same("commits", f.head(s.ThreadKey.ID()).Seq-before.Seq, int64(1))
	line, err := f.store.Load(f.Context(), s.ID, segno.Window{Last: 1, Entries: true})
	f.ok(err)
	var kinds []segno.EntryKind
	for _, e := range line.Commits[0].Entries {
		kinds = append(kinds, e.Kind)
	}
	f.same("what it holds", kinds, []segno.EntryKind{segno.EntryMessage, segno.EntryState})
	s = f.save(more(f.get(s.ThreadKey)))
	line, err = f.store.Load(f.Context(), s.ID, segno.Window{Last: 1, Entries: true})
	f.ok(err)
	f.same("what a save of nothing new holds", len(line.Commits[0].Entries), 0)
}

func saveCostsItsChange(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address()}
	text := noise(2 << 10)
	grow := func(to int) uint64 {
		for len(s.Messages) < to {
			s.Messages = append(s.Messages, said(text))
		}
		s = f.save(s)
		var sum uint64
		for range 10 {
			s.Messages = append(s.Messages, said(text))
			sum += allocated(func() { s = f.save(s) })
		}
		return sum
	}
	grow(10)
	few := grow(100)
	if many := grow(1000); many > 2*few+64<<10 {
		f.Fatalf("ten saves took %d bytes after 100 messages, %d after 1000", few, many)
	}
}

func leasedSaves() []clause {
	return []clause{{"a saver beside a lease", "while another holds the thread a save is a conflict; once it was given up and the head stands, it goes on", fencedSaver}}
}

func fencedSaver(f *fixture) {
	s := f.begin(f.address(), "one")
	lease, err := f.store.(segno.Leaser).Acquire(f.Context(), segno.Lease{Thread: s.ThreadKey.ID(), Owner: "another", Expires: f.later(time.Minute)})
	f.ok(err)
	_, err = f.saver.Save(f.Context(), more(s, "beside it"))
	f.kind(err, segno.KindConflict)
	f.stands(s)
	f.ok(f.store.(segno.Leaser).Release(f.Context(), lease))
	f.stands(f.save(more(s, "after it")))
}

func savesReopened(f *fixture) {
	var want []saver.Snapshot
	want = append(want, f.save(f.rich(f.address())))
	want = append(want, f.save(f.rich(saver.ThreadKey{Thread: want[0].Thread, Namespace: "child:1"})))
	want = append(want, f.begin(saver.ThreadKey{Thread: "a/b:c\x00"}, "odd"))
	gone := f.begin(f.address(), "gone")
	f.ok(f.saver.Delete(f.Context(), gone.ThreadKey))
	list, part := f.infos(""), f.infos("child:1")
	f.reopen()
	f.same("the list", f.infos(""), list)
	f.same("the namespace's list", f.infos("child:1"), part)
	for _, s := range want {
		f.stands(s)
	}
	f.absent(gone.ThreadKey)
	late := f.save(more(want[0], "from before")) // the writer that held it goes on
	f.stands(late)
	f.stands(f.save(more(f.get(want[1].ThreadKey), "and on")))
}

func interruptsReopened(f *fixture) {
	s := f.asked(2)
	f.reopen()
	f.stands(s)
	loaded := f.get(s.ThreadKey)
	f.save(decided(loaded, approve(loaded.Interrupts[0])))
	f.reopen()
	f.same("what waits", waiting(f.get(s.ThreadKey)), waiting(s)[1:])
	_, err := f.saver.Save(f.Context(), decided(f.get(s.ThreadKey), approve(s.Interrupts[0])))
	f.kind(err, segno.KindConflict)
}

func unknownReopened(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	f.after(a, intent("1", "send_email", `{"to":"a"}`))
	f.reopen()
	f.same("unknown", f.fold(a).Unknown, []segno.Entry{intent("1", "send_email", `{"to":"a"}`)})
}
