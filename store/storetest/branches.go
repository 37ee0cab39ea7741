package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// Brancher is a saver that keeps the writes of the branches of a parallel step.
type Brancher interface {
	SaveWrites(ctx context.Context, s saver.Snapshot, branch string, writes ...saver.Write) error
}

func isBrancher(f *fixture) bool { return implements[Brancher](f.saver) }

// write is one write of a branch.
func write(name, value string) saver.Write { return saver.Write{Name: name, Value: []byte(value)} }

func (f *fixture) saveWrites(s saver.Snapshot, branch string, writes ...saver.Write) {
	f.Helper()
	f.ok(f.saver.(Brancher).SaveWrites(f.Context(), s, branch, writes...))
}

func (f *fixture) writesErr(s saver.Snapshot, branch string, writes ...saver.Write) error {
	return f.saver.(Brancher).SaveWrites(f.Context(), s, branch, writes...)
}

// branches returns the writes of a snapshot as text: "branch: name=value".
func branches(s saver.Snapshot) map[string][]string {
	found := map[string][]string{}
	for branch, writes := range s.Writes {
		found[branch] = []string{}
		for _, w := range writes {
			found[branch] = append(found[branch], w.Name+"="+compact(w.Value))
		}
	}
	return found
}

// branchTests test a parallel step in which only some branches succeeded.
var branchTests = []test{
	{"a failed step resumes with its branches", "writes of branches are loaded with the checkpoint that the step follows, also by its id, and not with older ones", func(f *fixture) {
		saved := f.series(f.address(), 2)
		s := saved[1]
		f.saveWrites(s, "b", write("list", `[1, "x"]`), write("list", `2`), write("none", ""))
		f.saveWrites(s, "a/ü", write("score", `0.5`))
		f.saveWrites(s, "empty")
		want := map[string][]string{"b": {"list=[1,\"x\"]", "list=2", "none=null"}, "a/ü": {"score=0.5"}, "empty": {}}
		got := f.latest(s.ThreadKey)
		f.same("the writes", branches(got), want)
		got.Writes = nil
		f.equal("the checkpoint", got, s)
		f.same("the id in the list", f.infos("")[0].ID, s.ID)
		f.same("the writes at its id", branches(f.at(s.ThreadKey, s.ID)), want)
		f.same("the writes at an older one", branches(f.at(s.ThreadKey, saved[0].ID)), map[string][]string{})
		f.same("the history", f.historyIDs(s.ThreadKey, segno.CheckpointQuery{}), newestFirst(saved...))
	}},
	{"the next save ends the step", "the next save is no conflict with writes, loads none of them, and later writes for the old step are a conflict", func(f *fixture) {
		s := f.begin(f.address(), "one")
		f.saveWrites(s, "a", write("x", `1`))
		f.saveWrites(s, "b", write("x", `2`))
		next := f.save(with(s, "two")) // after the checkpoint as it was before the writes
		f.isLatest(next)
		f.same("the actual head", f.conflict(f.writesErr(s, "c", write("x", `3`))).Head, next.ID)
		f.saveWrites(next, "a", write("x", `4`))
		f.same("the writes of the next step", branches(f.latest(s.ThreadKey)), map[string][]string{"a": {"x=4"}})
		last := f.save(with(f.latest(s.ThreadKey), "three")) // after the checkpoint as it was loaded with the writes
		f.isLatest(last)
		f.same("the history", f.historyIDs(s.ThreadKey, segno.CheckpointQuery{}), newestFirst(s, next, last))
		f.equal("undo of the last", f.undo(s.ThreadKey, 1), next)
		f.equal("undo of the next", f.undo(s.ThreadKey, 1), s)
		f.isLatest(f.save(with(s, "again")))
	}},
	{"a branch counts once", "the same writes of a branch again change nothing, others are a conflict, and nameless or damaged ones are invalid", func(f *fixture) {
		s := f.begin(f.address(), "one")
		f.saveWrites(s, "a", write("x", `1`))
		f.saveWrites(s, "a", write("x", `1`))
		f.kind(f.writesErr(s, "a", write("x", `2`)), segno.KindConflict)
		f.kind(f.writesErr(s, "", write("x", `2`)), segno.KindInvalid)
		f.kind(f.writesErr(s, "b", write("x", `{`)), segno.KindInvalid)
		f.kind(f.writesErr(saver.Snapshot{ThreadKey: f.address()}, "a", write("x", `1`)), segno.KindInvalid)
		f.same("the writes", branches(f.latest(s.ThreadKey)), map[string][]string{"a": {"x=1"}})
	}},
	{"namespaces have their own branches", "writes of a namespace are not those of its thread, and go with it", func(f *fixture) {
		s := f.begin(f.address(), "one")
		inner := f.begin(part(s.ThreadKey, "inner"), "one")
		f.saveWrites(s, "a", write("x", `1`))
		f.saveWrites(inner, "a", write("x", `2`))
		f.same("of the thread", branches(f.latest(s.ThreadKey)), map[string][]string{"a": {"x=1"}})
		f.same("of the namespace", branches(f.latest(inner.ThreadKey)), map[string][]string{"a": {"x=2"}})
		f.remove(s.ThreadKey)
		f.notFound(inner.ThreadKey)
		f.kind(f.writesErr(s, "b", write("x", `3`)), segno.KindNotFound)
	}},
	{"branches at once", "branches that finish at the same moment all keep their writes", func(f *fixture) {
		f.raceBranches(f.saver)
	}},
}

// secondBranchTests run the branches of a step in two processes.
var secondBranchTests = []test{
	{"branches of two savers at once", "branches of two processes all keep their writes", func(f *fixture) {
		f.raceBranches(f.saver, f.another())
	}},
}

// reopenedBranchTests read writes in a later process.
var reopenedBranchTests = []test{
	{"writes of branches stay", "writes of branches are durable", func(f *fixture) {
		s := f.begin(f.address(), "one")
		f.saveWrites(s, "a", write("x", `1`))
		f.reopen()
		f.same("the writes", branches(f.latest(s.ThreadKey)), map[string][]string{"a": {"x=1"}})
		f.isLatest(f.save(with(s, "two")))
	}},
}

// raceBranches saves the writes of many branches concurrently, in several steps.
func (f *fixture) raceBranches(savers ...saver.Saver) {
	f.Helper()
	s := f.begin(f.address(), "begin")
	for step := range 3 {
		want := map[string][]string{}
		var group sync.WaitGroup
		errs := make([]error, 8)
		for k := range errs {
			branch := fmt.Sprint("branch ", k)
			want[branch] = []string{fmt.Sprintf("n=%d", step)}
			group.Go(func() {
				errs[k] = savers[k%len(savers)].(Brancher).SaveWrites(f.Context(), s, branch, write("n", fmt.Sprint(step)))
			})
		}
		group.Wait()
		for _, err := range errs {
			f.ok(err)
		}
		f.same("the writes", branches(f.latest(s.ThreadKey)), want)
		s = f.save(with(s, fmt.Sprint("step ", step)))
		f.isLatest(s)
	}
}

// asideTests continue an older checkpoint without moving the thread.
var asideTests = []test{
	{"a run beside the head", "saves with Aside follow an older checkpoint and move no other user of the thread, until a restore adopts them", func(f *fixture) {
		saved := f.series(f.address(), 3)
		a, last := saved[0].ThreadKey, saved[2]
		s := f.at(a, saved[0].ID)
		s.Aside = true
		one := f.save(with(s, "aside one"))
		f.isLatest(last)
		last = f.save(with(last, "the thread goes on"))
		two := f.save(with(one, "aside two"))
		f.isLatest(last)
		f.same("steps", []int{one.Step, two.Step}, []int{saved[0].Step + 1, saved[0].Step + 2})
		found := f.at(a, two.ID)
		found.Aside = true
		f.equal("the line beside the head", found, two)
		f.same("the history", f.historyIDs(a, segno.CheckpointQuery{}), newestFirst(saved[0], saved[1], saved[2], one, last, two))
		f.equal("undo", f.undo(a, 1), saved[2])
		f.equal("redo", f.redo(a, 1), last)
		two.Aside = false
		f.same("the actual head", f.conflict(f.saveErr(with(two, "not aside"))).Head, last.ID)
		f.equal("after the restore", returned(f.saver.(Traveler).Restore(f.Context(), a, two.ID)).ok(f), two)
		f.isLatest(f.save(with(two, "the thread is there now")))
		f.kind(f.saveErr(saver.Snapshot{ThreadKey: f.address(), Aside: true}), segno.KindInvalid)
		f.kind(f.writesErr(one, "a"), segno.KindInvalid)
	}},
}
