package storetest

import (
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

func putReturnsConfig(f *fixture) {
	a := saver.ThreadKey{Thread: f.id("thread"), Namespace: "child:1"}
	s := f.begin(a, "x")
	f.same("the address", s.ThreadKey, a)
	f.same("the id", s.ID, f.get(a).ID)
	f.same("whether there is one", s.ID != "", true)
}

func putRoundtrip(f *fixture) {
	s := more(saver.Snapshot{ThreadKey: f.address(), State: state("k", `"v"`)}, "hello")
	f.stands(f.save(s))
}

func putPreservesChannelValues(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address(), State: state("text", `"hello"`, "number", `42`, "list", `[1,2,3]`, "map", `{"a":{"b":1}}`, "bytes", `"AAEC/w=="`, "nothing", `null`)}
	want := state("text", `"hello"`, "number", `42`, "list", `[1,2,3]`, "map", `{"a":{"b":1}}`, "bytes", `"AAEC/w=="`, "nothing", `null`)
	f.save(s)
	f.same("the values", f.get(s.ThreadKey).State, want)
}

func putPreservesMetadata(f *fixture) {
	want := map[string]string{"source": "loop", "custom": "a value"}
	s := f.save(saver.Snapshot{ThreadKey: f.address(), Step: 3, Meta: map[string]string{"source": "loop", "custom": "a value"}})
	f.same("meta", f.get(s.ThreadKey).Meta, want)
	f.same("the step", f.get(s.ThreadKey).Step, 3)
}

func putRootNamespace(f *fixture) {
	s := f.begin(f.address(), "x")
	f.same("the namespace", f.get(s.ThreadKey).Namespace, "")
	f.same("where it is listed", f.saved(""), []saver.ThreadKey{s.ThreadKey})
}

func putChildNamespace(f *fixture) {
	s := f.begin(saver.ThreadKey{Thread: f.id("thread"), Namespace: "child:abc"}, "x")
	f.same("the namespace", f.get(s.ThreadKey).Namespace, "child:abc")
	f.same("where it is listed", f.saved("child:abc"), []saver.ThreadKey{s.ThreadKey})
}

func putMultipleCheckpoints(f *fixture) {
	for _, s := range f.grown(f.address(), 3) {
		f.alike("one by its id", f.at(s.ThreadKey, s.ID), s)
	}
}

func putThreadsIsolated(f *fixture) {
	a := f.save(saver.Snapshot{ThreadKey: f.address(), State: state("mine", `"a"`)})
	b := f.save(saver.Snapshot{ThreadKey: f.address(), State: state("mine", `"b"`)})
	f.same("a's", f.get(a.ThreadKey).State, state("mine", `"a"`))
	f.same("b's", f.get(b.ThreadKey).State, state("mine", `"b"`))
}

func putParentConfig(f *fixture) {
	all := f.grown(f.address(), 2)
	f.same("the parent", f.history(all[0].ThreadKey, segno.CheckpointQuery{Limit: 1})[0].Parent, all[0].ID)
}

func putIncrementalUpdate(f *fixture) {
	one := f.save(saver.Snapshot{ThreadKey: f.address(), State: state("a", `1`, "b", `1`)})
	two := one
	two.State = state("a", `2`, "b", `1`)
	two = f.save(two)
	f.same("the new one", f.get(one.ThreadKey).State, state("a", `2`, "b", `1`))
	f.same("the old one", f.at(one.ThreadKey, one.ID).State, state("a", `1`, "b", `1`))
}

func putNewChannel(f *fixture) {
	s := f.save(saver.Snapshot{ThreadKey: f.address(), State: state("a", `1`)})
	s.State = state("a", `1`, "b", `[]`)
	f.save(s)
	f.same("both", f.get(s.ThreadKey).State, state("a", `1`, "b", `[]`))
}

func putChannelRemoved(f *fixture) {
	s := f.save(saver.Snapshot{ThreadKey: f.address(), State: state("a", `1`, "b", `2`)})
	s.State = state("a", `1`)
	f.save(s)
	f.same("what is left", f.get(s.ThreadKey).State, state("a", `1`))
}

func putPreservesRunID(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address(), Meta: map[string]string{"run_id": "run 1"}}
	s = f.save(s)
	f.same("meta", f.get(s.ThreadKey).Meta["run_id"], "run 1")
	first := s.ID
	s.Meta = map[string]string{"run_id": "run 2"}
	f.save(more(s))
	f.same("what the run saved", f.told(s.ThreadKey, segno.CheckpointQuery{Meta: map[string]string{"run_id": "run 1"}}), []segno.CommitID{first})
}

// after commits entries after a thread's newest checkpoint, as a run does between
// two saves.
func (f *fixture) after(a saver.ThreadKey, entries ...segno.Entry) segno.Commit {
	f.Helper()
	head := f.head(a.ID())
	c := segno.Commit{ID: segno.CommitID(f.id("entries")), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Entries: entries}
	f.commit(c)
	return c
}

// fold is the state at a thread's head.
func (f *fixture) fold(a saver.ThreadKey) *segno.State {
	f.Helper()
	line, err := f.store.Load(f.Context(), f.head(a.ID()).Head, segno.Window{Entries: true})
	f.ok(err)
	s, err := segno.Fold(line)
	f.ok(err)
	return s
}

func intent(id, tool, body string) segno.Entry {
	return segno.Entry{Kind: segno.EntryIntent, ID: id, Name: tool, Time: epoch, Body: json.RawMessage(body)}
}

func writesBasic(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	want := intent("call 1", "send_email", `{"to":"a"}`)
	f.after(a, want)
	f.same("what was begun", f.fold(a).Unknown, []segno.Entry{want})
}

func writesSameTask(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	want := []segno.Entry{intent("1", "a", `1`), intent("2", "b", `"two"`), intent("3", "c", `[3]`)}
	f.after(a, want...)
	f.same("what was begun", f.fold(a).Unknown, want)
}

func writesMultipleTasks(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	one, two := intent("1", "tool", `1`), intent("2", "tool", `1`)
	f.after(a, one)
	f.after(a, two)
	f.same("what was begun", f.fold(a).Unknown, []segno.Entry{one, two})
	f.after(a, segno.Entry{Kind: segno.EntryResult, ID: "1", Name: "tool"})
	f.same("what is left", f.fold(a).Unknown, []segno.Entry{two})
}

func writesTaskID(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	for _, id := range hostile() {
		f.after(a, intent(id, "tool", `1`))
	}
	var got []string
	for _, e := range f.fold(a).Unknown {
		got = append(got, e.ID)
	}
	f.same("the ids", got, hostile())
}

func writesChannelAndValue(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	f.after(a, segno.Entry{Kind: segno.EntryState, Name: "channel\x00", Body: json.RawMessage(`{"k":{"deep":[1,2]}}`)})
	f.same("the value", f.get(a).State, state("channel\x00", `{"k":{"deep":[1,2]}}`))
}

func writesIdempotent(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	c := f.after(a, intent("1", "tool", `1`))
	f.commit(c)
	f.same("what was begun", f.fold(a).Unknown, []segno.Entry{intent("1", "tool", `1`)})
}

func writesSpecial(f *fixture) {
	s := f.asked(1)
	want := segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: segno.Edit, Args: json.RawMessage(`{"to":"b@example.com"}`), Actor: "ann", Time: epoch}
	question := f.fold(s.ThreadKey).Interrupts
	f.same("the question", question, s.Interrupts)
	f.save(decided(s, want))
	f.same("the answer", f.fold(s.ThreadKey).Answers[want.Interrupt].Decision, want)
}

func writesAcrossNamespaces(f *fixture) {
	s := f.asked(1)
	part := f.begin(saver.ThreadKey{Thread: s.Thread, Namespace: "child:1"}, "x")
	f.same("the child's", len(f.get(part.ThreadKey).Interrupts), 0)
	part.Interrupts = []segno.Interrupt{f.question(part.ThreadKey, `{}`, segno.Approve)}
	part = f.save(more(part))
	f.same("the child's own", waiting(f.get(part.ThreadKey)), waiting(part))
	f.same("the root's", waiting(f.get(s.ThreadKey)), waiting(s))
}

func writesCleared(f *fixture) {
	a := f.begin(f.address(), "x").ThreadKey
	f.after(a, intent("1", "tool", `1`))
	head := f.head(a.ID())
	f.commit(segno.Commit{ID: "the next", Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Entries: []segno.Entry{{Kind: segno.EntryResult, ID: "1", Name: "tool"}}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Step: 2, Time: epoch}})
	f.same("what is left", len(f.fold(a).Unknown), 0)
}
