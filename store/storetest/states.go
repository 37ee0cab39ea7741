package storetest

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// append commits entries after the newest checkpoint of a thread, as an agent does between two saves.
func (f *fixture) append(a saver.ThreadKey, entries ...segno.Entry) segno.Commit {
	f.Helper()
	c := f.turn(f.head(a.ID()))
	c.Checkpoint, c.Entries = nil, entries
	f.commit(c)
	return c
}

// fold returns the state at the head of a thread.
func (f *fixture) fold(a saver.ThreadKey) *segno.State {
	f.Helper()
	return returned(segno.Fold(&segno.Line{Commits: f.load(f.head(a.ID()).Head)})).ok(f)
}

func intent(id, tool, body string) segno.Entry {
	return segno.Entry{Kind: segno.EntryIntent, ID: id, Name: tool, Time: epoch, Body: json.RawMessage(body)}
}

func result(id, tool string) segno.Entry {
	return segno.Entry{Kind: segno.EntryResult, ID: id, Name: tool, Time: epoch, Body: json.RawMessage(`"ok"`)}
}

// stateTests test the entries that a saver commits, and those that other programs commit to its threads.
var stateTests = []test{
	{"an intent without a result", "an intent is in State.Unknown until its result is committed", func(f *fixture) {
		s := f.begin(f.address(), "x")
		a := s.ThreadKey
		for _, id := range hostileIDs() {
			f.append(a, intent(id, "tool", `1`))
			f.same("an unknown intent", f.fold(a).Unknown, []segno.Entry{intent(id, "tool", `1`)})
			f.append(a, result(id, "tool"))
		}
		one, two, three := intent("1", "send_email", `{"to":"a"}`), intent("2", "charge", `{"sum":9007199254740993}`), intent("3", "charge", `1`)
		f.append(a, one, two)
		f.commit(f.append(a, three)) // the same commit twice
		f.same("unknown intents", f.fold(a).Unknown, []segno.Entry{one, two, three})
		if t, ok := f.saver.(Traveler); ok {
			before := returned(t.At(f.Context(), a, s.ID)).ok(f)
			f.equal("the checkpoint before", before, s)
		}
		s = f.save(with(f.latest(a), "more"))
		f.append(a, result("2", "charge"))
		f.same("unknown intents after a result", f.fold(a).Unknown, []segno.Entry{one, three})
		then := returned(segno.Fold(&segno.Line{Commits: f.load(s.ID)})).ok(f)
		f.same("unknown intents at the save before", then.Unknown, []segno.Entry{one, two, three})
		c := f.step(f.head(a.ID()), result("1", "send_email"), result("3", "charge"))
		f.commit(c)
		f.same("unknown intents after a step with results", len(f.fold(a).Unknown), 0)
		f.append(a, segno.Entry{Kind: segno.EntryMessage, Body: message("2")},
			segno.Entry{Kind: segno.EntryState, Name: "k\x00", Body: []byte(`[2]`)})
		got := f.latest(a)
		f.same("a message after the save", string(got.Messages[len(got.Messages)-1]), string(message("2")))
		f.same("a value after the save", string(got.State["k\x00"]), `[2]`)
	}},
	{"an answer is recorded", "a decision is stored with actor, time, text and arguments", func(f *fixture) {
		s := f.asked(2)
		f.same("the questions", f.fold(s.ThreadKey).Interrupts, s.Interrupts)
		edit := segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: segno.Edit, Args: json.RawMessage(`{"to":"b@example.com"}`),
			Actor: "ann\x00", Time: epoch.Add(time.Nanosecond)}
		reject := segno.Decision{Interrupt: s.Interrupts[1].ID, Kind: segno.Reject, Text: "it is late", Actor: "bob"}
		s = f.save(decided(s, edit))
		f.advance(time.Minute)
		s = f.save(decided(s, reject))
		reject.Time = s.Updated
		got := f.fold(s.ThreadKey).Answers
		f.same("the first decision", got[edit.Interrupt].Decision, edit)
		f.same("the second decision, with the time of the save", got[reject.Interrupt].Decision, reject)
		f.undo(s.ThreadKey, 1)
		f.same("the number of decisions after an undo", len(f.fold(s.ThreadKey).Answers), 1)
		f.redo(s.ThreadKey, 1)
		f.same("the number of decisions after a redo", len(f.fold(s.ThreadKey).Answers), 2)
	}},
	{"a save is atomic", "a concurrent reader sees each save completely or not at all", testAtomicSave},
}

func testAtomicSave(f *fixture) {
	s := f.save(saver.Snapshot{ThreadKey: f.address(), Messages: []json.RawMessage{message("0")}, State: values("n", `1`)})
	a := s.ThreadKey
	ctx, cancel := context.WithCancel(f.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for range 3 {
		group.Go(func() {
			for ctx.Err() == nil {
				got, err := f.saver.Load(f.Context(), a)
				if n := strconv.Itoa(len(got.Messages)); err != nil || string(got.State["n"]) != n || strconv.Itoa(got.Step) != n {
					f.Errorf("a reader got step %d with %s messages and n = %s (%v)", got.Step, n, got.State["n"], err)
					return
				}
			}
		})
	}
	for i := range 30 {
		s = with(s, "x")
		s.State = values("n", strconv.Itoa(i+2))
		s = f.save(s)
	}
}

// leasedStateTests test a saver on a thread that another program has leased.
var leasedStateTests = []test{
	{"a saver beside a lease", "a save to a thread that another owner has leased is a conflict until the lease is released", func(f *fixture) {
		s := f.begin(f.address(), "one")
		lease := f.acquire(s.ThreadKey.ID(), "another")
		f.kind(f.saveErr(with(s, "beside it")), segno.KindConflict)
		f.isLatest(s)
		f.ok(f.store.(segno.Leaser).Release(f.Context(), lease))
		f.isLatest(f.save(with(s, "after it")))
	}},
}

// reopenedSaverTests test the durability of a saver.
var reopenedSaverTests = []test{
	{"saves", "after reopening all checkpoints, questions and lists are unchanged, and saves continue", func(f *fixture) {
		first := f.save(f.rich(f.address()))
		saved := []saver.Snapshot{first, f.save(f.rich(part(first.ThreadKey, "child:1"))), f.begin(saver.ThreadKey{Thread: "a/b:c\x00"}, "odd")}
		gone := f.begin(f.address(), "gone")
		f.remove(gone.ThreadKey)
		list, namespace := f.infos(""), f.infos("child:1")
		f.reopen()
		f.same("the list", f.infos(""), list)
		f.same("the list of the namespace", f.infos("child:1"), namespace)
		for _, s := range saved {
			f.isLatest(s)
		}
		f.notFound(gone.ThreadKey)
		question := approve(first.Interrupts[0])
		f.isLatest(f.save(decided(with(first, "after a checkpoint from before"), question)))
		f.reopen()
		f.kind(f.saveErr(decided(f.latest(first.ThreadKey), question)), segno.KindConflict)
		f.isLatest(f.save(with(f.latest(saved[1].ThreadKey), "more")))
	}},
}
