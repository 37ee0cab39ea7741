package storetest

import (
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

func getNonexistent(f *fixture) { f.absent(f.address()) }

func getLatest(f *fixture) {
	all := f.grown(f.address(), 3)
	f.stands(all[2])
	f.same("the step", f.get(all[0].ThreadKey).Step, 3)
}

func getSpecific(f *fixture) {
	all := f.grown(f.address(), 2)
	f.alike("the first", f.at(all[0].ThreadKey, all[0].ID), all[0])
}

func getConfig(f *fixture) {
	for _, a := range []saver.ThreadKey{f.address(), {Thread: f.id("thread"), Namespace: "part"}} {
		s := f.begin(a, "x")
		f.same("the address", f.get(a).ThreadKey, a)
		f.same("the id", f.get(a).ID, s.ID)
	}
}

func getFields(f *fixture) {
	s := f.save(saver.Snapshot{ThreadKey: f.address(), State: state("k", `"v"`)})
	got := f.get(s.ThreadKey)
	f.same("the fields", []any{got.ID, got.Step, got.Created.Equal(s.Created), got.Updated.Equal(s.Updated), got.Updated.IsZero()}, []any{s.ID, 1, true, true, false})
	f.same("the values", got.State, state("k", `"v"`))
}

func getMetadata(f *fixture) {
	s := f.save(saver.Snapshot{ThreadKey: f.address(), Meta: map[string]string{"source": "input"}})
	f.same("meta", f.get(s.ThreadKey).Meta, map[string]string{"source": "input"})
}

func getParent(f *fixture) {
	all := f.grown(f.address(), 2)
	h := f.history(all[0].ThreadKey, segno.CheckpointQuery{})
	f.same("parents", []segno.CommitID{h[0].Parent, h[1].Parent}, []segno.CommitID{all[0].ID, ""})
}

func getPending(f *fixture) {
	s := f.asked(1)
	f.same("what waits", viewOf(f.get(s.ThreadKey)).Interrupts, viewOf(s).Interrupts)
}

func getNamespace(f *fixture) {
	root := f.begin(f.address(), "root")
	part := f.begin(saver.ThreadKey{Thread: root.Thread, Namespace: "child:1"}, "child")
	f.stands(root)
	f.stands(part)
}

func getNonexistentID(f *fixture) {
	s := f.begin(f.address(), "x")
	_, err := f.saver.(Historian).At(f.Context(), s.ThreadKey, "nobody")
	f.kind(err, segno.KindNotFound)
}

// marked saves four checkpoints: an input, two of the loop, another input.
func (f *fixture) marked() (all []saver.Snapshot) {
	f.Helper()
	s := saver.Snapshot{ThreadKey: f.address()}
	for i, source := range []string{"input", "loop", "loop", "input"} {
		s.Meta = map[string]string{"source": source, "score": fmt.Sprint(40 + i)}
		s = f.save(more(s, fmt.Sprint(i)))
		all = append(all, s)
	}
	return all
}

// chooses wants a query to find these of a thread's saves, the oldest first.
func (f *fixture) chooses(q segno.CheckpointQuery, of saver.ThreadKey, want ...saver.Snapshot) {
	f.Helper()
	f.same(fmt.Sprintf("%+v", q), f.told(of, q), newest(want...))
}

type pairs = map[string]string

func listAll(f *fixture) {
	all := f.marked()
	f.same("how many", len(f.told(all[0].ThreadKey, segno.CheckpointQuery{})), 4)
}

func listByThread(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{}, f.address())
	other := f.marked()
	f.chooses(segno.CheckpointQuery{}, all[0].ThreadKey, all...)
	f.chooses(segno.CheckpointQuery{}, other[0].ThreadKey, other...)
}

func listByNamespace(f *fixture) {
	root := f.begin(f.address(), "root")
	part := f.begin(saver.ThreadKey{Thread: root.Thread, Namespace: "child:1"}, "child")
	f.chooses(segno.CheckpointQuery{}, root.ThreadKey, root)
	f.chooses(segno.CheckpointQuery{}, part.ThreadKey, part)
}

func listOrdering(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{}, all[0].ThreadKey, all...)
}

func listFilterSingle(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Meta: pairs{"source": "input"}}, all[0].ThreadKey, all[0], all[3])
}

func listFilterStep(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Step: 2}, all[0].ThreadKey, all[1])
}

func listFilterMultiple(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Meta: pairs{"source": "loop", "score": "42"}}, all[0].ThreadKey, all[2])
	f.chooses(segno.CheckpointQuery{Meta: pairs{"source": "input", "score": "42"}}, all[0].ThreadKey)
}

func listFilterNone(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Meta: pairs{"source": "update"}}, all[0].ThreadKey)
}

func listCustomKeys(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Meta: pairs{"score": "42"}}, all[0].ThreadKey, all[2])
}

// seq is a checkpoint's place in its thread, as a cursor.
func (f *fixture) seq(s saver.Snapshot) int64 {
	f.Helper()
	h := f.history(s.ThreadKey, segno.CheckpointQuery{})
	i := slices.IndexFunc(h, func(c segno.Checkpoint) bool { return c.ID == s.ID })
	if i < 0 {
		f.Fatalf("%s is not in the history", s.ID)
	}
	return h[i].Seq
}

func listBefore(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Before: f.seq(all[2])}, all[0].ThreadKey, all[:2]...)
	f.chooses(segno.CheckpointQuery{Before: f.seq(all[0])}, all[0].ThreadKey)
}

func listLimit(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Limit: 1}, all[0].ThreadKey, all[3])
	f.chooses(segno.CheckpointQuery{Limit: 2}, all[0].ThreadKey, all[2:]...)
	f.chooses(segno.CheckpointQuery{Limit: 9}, all[0].ThreadKey, all...)
}

func listLimitBefore(f *fixture) {
	all := f.marked()
	f.chooses(segno.CheckpointQuery{Limit: 1, Before: f.seq(all[2])}, all[0].ThreadKey, all[1])
}

func listCombined(f *fixture) {
	all, other := f.marked(), f.marked()
	f.chooses(segno.CheckpointQuery{Meta: pairs{"source": "loop"}}, all[0].ThreadKey, all[1:3]...)
	f.chooses(segno.CheckpointQuery{Meta: pairs{"source": "loop"}}, other[0].ThreadKey, other[1:3]...)
}

func listEmpty(f *fixture) { f.chooses(segno.CheckpointQuery{}, f.address()) }

func listNamespaces(f *fixture) {
	root := f.begin(f.address(), "root")
	var parts []saver.Snapshot
	for _, name := range []string{"child:1", "child:2"} {
		parts = append(parts, f.begin(saver.ThreadKey{Thread: root.Thread, Namespace: name}, name))
	}
	f.chooses(segno.CheckpointQuery{}, root.ThreadKey, root)
	f.chooses(segno.CheckpointQuery{}, parts[1].ThreadKey, parts[1])
	f.same("the threads", f.saved(""), []saver.ThreadKey{root.ThreadKey})
}

func deleteCheckpoints(f *fixture) {
	all := f.marked()
	f.ok(f.saver.Delete(f.Context(), all[0].ThreadKey))
	f.absent(all[0].ThreadKey)
	f.chooses(segno.CheckpointQuery{}, all[0].ThreadKey)
}

func deleteWrites(f *fixture) {
	s := f.asked(1)
	f.ok(f.saver.Delete(f.Context(), s.ThreadKey))
	f.absent(s.ThreadKey)
	_, err := f.saver.Save(f.Context(), decided(s, approve(s.Interrupts[0])))
	f.kind(err, segno.KindNotFound)
}

func deleteNamespaces(f *fixture) {
	root := f.begin(f.address(), "root")
	part := f.begin(saver.ThreadKey{Thread: root.Thread, Namespace: "child:1"}, "child")
	f.ok(f.saver.Delete(f.Context(), root.ThreadKey))
	f.absent(root.ThreadKey)
	f.absent(part.ThreadKey)
}

func deleteOthersStay(f *fixture) {
	one, two := f.begin(f.address(), "one"), f.begin(f.address(), "two")
	f.ok(f.saver.Delete(f.Context(), one.ThreadKey))
	f.absent(one.ThreadKey)
	f.stands(two)
}

func deleteNonexistent(f *fixture) { f.ok(f.saver.Delete(f.Context(), f.address())) }
