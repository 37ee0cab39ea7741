package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// back is what a fork meets when it is taken back to the first save, oldest first.
func (f *fixture) back(fork saver.Snapshot, n int) (met []saver.Snapshot) {
	f.Helper()
	for range n {
		met = append(met, f.undo(fork.ThreadKey, 1))
	}
	slices.Reverse(met)
	return met
}

func copyBasic(f *fixture) {
	all := f.grown(f.address(), 3)
	fork := f.fork(all[2].ID, f.address())
	f.same("how many it meets", len(f.back(fork, 3)), 3)
	_, err := f.saver.(Traveller).Undo(f.Context(), fork.ThreadKey, 1)
	f.kind(err, segno.KindNotFound)
}

func copyAll(f *fixture) {
	all := f.grown(f.address(), 3)
	for i, s := range f.back(f.fork(all[2].ID, f.address()), 3) {
		f.likeFork(fmt.Sprint("save ", i), s, all[i])
	}
}

func copyMetadata(f *fixture) {
	all := f.marked()
	for _, s := range all {
		fork := f.fork(s.ID, f.address())
		f.same("meta", f.get(fork.ThreadKey).Meta, s.Meta)
		f.same("the step", f.get(fork.ThreadKey).Step, s.Step)
	}
}

func copyNamespaces(f *fixture) {
	root := f.begin(f.address(), "root")
	to := f.address()
	for _, name := range []string{"", "child:1"} {
		from := root
		if name != "" {
			from = f.begin(saver.ThreadKey{Thread: root.Thread, Namespace: name}, name)
		}
		fork := f.fork(from.ID, saver.ThreadKey{Thread: to.Thread, Namespace: name})
		f.likeFork("the namespace "+name, f.get(fork.ThreadKey), from)
		f.same("whether it is listed", slices.Contains(f.saved(name), fork.ThreadKey), true)
	}
}

func copyWrites(f *fixture) {
	s := f.asked(2)
	fork := f.fork(s.ID, f.address())
	f.same("what waits in the fork", waiting(f.get(fork.ThreadKey)), waiting(s))
	f.save(decided(fork, approve(fork.Interrupts[0])))
	f.same("what waits in the fork after", len(waiting(f.get(fork.ThreadKey))), 1)
	f.same("what waits in the source", waiting(f.get(s.ThreadKey)), waiting(s))
}

func copyOrdering(f *fixture) {
	all := f.grown(f.address(), 4)
	f.same("what it meets", newest(f.back(f.fork(all[3].ID, f.address()), 4)...), newest(all...))
}

func copySourceUnchanged(f *fixture) {
	all := f.marked()
	fork := f.fork(all[1].ID, f.address())
	f.save(more(fork, "x"))
	f.chooses(segno.CheckpointQuery{}, all[0].ThreadKey, all...)
	f.stands(all[3])
}

func copyNonexistent(f *fixture) {
	a := f.address()
	_, err := f.saver.(Forker).Fork(f.Context(), "nobody", a)
	f.kind(err, segno.KindNotFound)
	f.absent(a)
	f.chooses(segno.CheckpointQuery{}, a)
}

// collected lets two hours pass and drops what nothing reaches.
func (f *fixture) collected() segno.Collection {
	f.Helper()
	f.tick(2 * time.Hour)
	return gc{f, f.store.(segno.Collector)}.collect(segno.CollectPolicy{})
}

func pruneNamespaces(f *fixture) {
	root := f.grown(f.address(), 3)
	part := f.grown(saver.ThreadKey{Thread: root[0].Thread, Namespace: "child:1"}, 2)
	f.same("dropped", f.collected().Checkpoints, 0)
	f.stands(root[2])
	f.stands(part[1])
}

func pruneWrites(f *fixture) {
	s := f.asked(2)
	f.after(s.ThreadKey, intent("1", "tool", `1`))
	f.collected()
	f.same("what waits", waiting(f.get(s.ThreadKey)), waiting(s))
	f.same("what was begun", f.fold(s.ThreadKey).Unknown, []segno.Entry{intent("1", "tool", `1`)})
}

func pruneDeleteAll(f *fixture) {
	all := f.marked()
	f.ok(f.saver.Delete(f.Context(), all[0].ThreadKey))
	f.same("dropped", f.collected().Checkpoints, 4)
	f.same("a second time", f.collected().Checkpoints, 0)
	f.absent(all[0].ThreadKey)
}

func pruneOthersStay(f *fixture) {
	one, two := f.marked(), f.marked()
	f.ok(f.saver.Delete(f.Context(), one[0].ThreadKey))
	f.collected()
	f.chooses(segno.CheckpointQuery{}, two[0].ThreadKey, two...)
	for _, s := range two {
		f.alike("one of them", f.at(s.ThreadKey, s.ID), s)
	}
}

func pruneNothing(f *fixture) {
	f.same("dropped", f.collected(), segno.Collection{})
}

// texts is what is said at a thread's head.
func (f *fixture) texts(a saver.ThreadKey) (all []string) {
	f.Helper()
	for _, m := range f.get(a).Messages {
		var x struct{ Content string }
		f.ok(json.Unmarshal(m, &x))
		all = append(all, x.Content)
	}
	return all
}

func historyOldestFirst(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address()}
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprint(2*i), fmt.Sprint(2*i+1))
		s = f.save(more(s, want[2*i:]...))
	}
	f.same("the messages", f.texts(s.ThreadKey), want)
}

// rewritten replaces all messages by one, and says more in the same save.
func (f *fixture) rewritten(s saver.Snapshot, texts ...string) saver.Snapshot {
	f.Helper()
	s.Messages, s.Kept = nil, 0
	return f.save(more(s, texts...))
}

func historySeed(f *fixture) {
	s := f.begin(f.address(), "1", "2", "3")
	s = f.rewritten(s, "first summary")
	s = f.save(more(s, "4"))
	s = f.rewritten(s, "second summary")
	f.save(more(s, "5"))
	f.same("the messages", f.texts(s.ThreadKey), []string{"second summary", "5"})
}

func historyExcludesTarget(f *fixture) {
	s := f.begin(f.address(), "1")
	f.after(s.ThreadKey, segno.Entry{Kind: segno.EntryMessage, Body: said("extra")}, intent("1", "tool", `1`))
	f.alike("the checkpoint", f.at(s.ThreadKey, s.ID), s)
	f.same("the head", f.texts(s.ThreadKey), []string{"1", "extra"})
}

func historyMultiChannel(f *fixture) {
	one := more(saver.Snapshot{ThreadKey: f.address(), State: state("a", `1`, "b", `1`)}, "1")
	one = f.save(one)
	two := more(one, "2")
	two.State = state("a", `2`, "b", `1`)
	two = f.save(two)
	three := f.rewritten(two, "summary")
	for _, s := range []saver.Snapshot{one, two, three} {
		f.alike("one of them", f.at(s.ThreadKey, s.ID), s)
	}
	f.same("the values", f.get(one.ThreadKey).State, state("a", `2`, "b", `1`))
}

func historyToRoot(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address()}
	for i := range 4 {
		s = f.save(more(s, fmt.Sprint(i)))
	}
	f.same("the messages", f.texts(s.ThreadKey), []string{"0", "1", "2", "3"})
}

func historySeedOwnWrites(f *fixture) {
	s := f.begin(f.address(), "1", "2")
	s = f.rewritten(s, "summary", "and a question")
	f.save(more(s, "an answer"))
	f.same("the messages", f.texts(s.ThreadKey), []string{"summary", "and a question", "an answer"})
}
