package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// collectErr collects with the policy and the trace of the tests.
func (f *fixture) collectErr(p segno.CollectPolicy) (segno.Collection, error) {
	if p.Trace == nil {
		p.Trace = trace
	}
	return f.store.(segno.Collector).Collect(f.Context(), p)
}

// collect advances the clock by two hours, so that no object is too young to be dropped, and collects.
func (f *fixture) collect(p segno.CollectPolicy) segno.Collection {
	f.Helper()
	f.advance(2 * time.Hour)
	return returned(f.collectErr(p)).ok(f)
}

// dropped collects, and fails the test unless exactly this many checkpoints and objects are dropped.
func (f *fixture) dropped(checkpoints, objects int) {
	f.Helper()
	done := f.collect(segno.CollectPolicy{})
	f.same("dropped checkpoints and objects", []int{done.Checkpoints, done.Objects}, []int{checkpoints, objects})
}

// collectTests test which data a collection keeps and drops. Each test advances the clock, because young
// objects stay.
var collectTests = []test{
	{"what is reached stays", "heads, tips, lines, forks, members, operations and workspaces keep what they reach", testReached},
	{"amended checkpoints", "an amended checkpoint is dropped unless a pin or a line reaches it; its id stays known", testAmended},
	{"a deleted thread", "commits and objects of a deleted thread are dropped unless a fork reaches them", func(f *fixture) {
		one := f.commit(f.files(f.newThread(), "shared with the fork"))
		two := f.files(one, noise(2<<20))
		two.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: one.Thread, Verb: segno.VerbRedo, Time: epoch,
			After: segno.Pointers{Head: two.ID}}
		two.Link = &segno.Link{Session: "s", Start: epoch}
		f.commit(two)
		fork := f.commit(f.base("fork", one.Head))
		line := f.load(fork.Head)
		f.ok(f.store.Delete(f.Context(), one.Thread))
		f.dropped(1, 2)
		f.missing(noise(2<<20), tree(noise(2<<20)))
		f.present("shared with the fork")
		f.same("the line of the fork", f.load(fork.Head), line)
		f.kind(f.loadErr(two.ID), segno.KindNotFound)
		f.ok(f.store.Delete(f.Context(), "fork"))
		f.dropped(3, 2)
		f.missing("shared with the fork")
		f.dropped(0, 0)
	}},
	{"young objects stay", "an object stays for an hour after it was stored, so that a batch is safe until its commit", func(f *fixture) {
		f.keep("young", noise(2<<20))
		staged := f.stage("staged", noise(2<<20)+"!")
		f.advance(59 * time.Minute)
		done := returned(f.collectErr(segno.CollectPolicy{})).ok(f)
		f.same("dropped after 59 minutes", done.Objects, 0)
		f.present("young", noise(2<<20))
		f.ok(f.store.Objects().Keep(f.Context(), staged))
		f.keep("young")
		f.advance(2 * time.Minute)
		done = returned(f.collectErr(segno.CollectPolicy{})).ok(f)
		f.same("dropped after 61 minutes", done.Objects, 1)
		f.missing(noise(2 << 20))
		f.present("young", "staged", noise(2<<20)+"!")
	}},
	{"the policy", "a dry run drops nothing; objects of the policy's checkpoints stay; without Trace no object is dropped", func(f *fixture) {
		f.keep(tree("before"), "before", "unreachable")
		deleted := f.newThread()
		f.ok(f.store.Delete(f.Context(), deleted.Thread))
		p := segno.CollectPolicy{Checkpoints: []segno.Checkpoint{{Workspace: &segno.Snapshot{Tree: hash(tree("before"))}}}, DryRun: true}
		counted := f.collect(p)
		f.same("counted", []int{counted.Checkpoints, counted.Objects}, []int{1, 1})
		f.present("unreachable")
		f.line(deleted.Head, 0)
		p.DryRun = false
		f.same("the collection", f.collect(p), counted)
		f.missing("unreachable")
		f.present(tree("before"), "before")
		done := returned(f.store.(segno.Collector).Collect(f.Context(), segno.CollectPolicy{})).ok(f)
		f.same("dropped without Trace", done.Objects, 0)
		f.present(tree("before"), "before")
	}},
	{"a batch that found an object", "a commit is refused if a collection dropped an object that its batch did not stage", func(f *fixture) {
		head := f.newThread()
		f.keep("old")
		f.advance(2 * time.Hour)
		c := f.turn(head)
		c.Staged = f.stage("old", "new")
		f.dropped(0, 1)
		f.kind(f.commitErr(c), segno.KindNotFound)
		f.same("the head", f.head(head.Thread), head)
		c.Staged = f.stage("old", "new")
		f.commit(c)
		f.present("old", "new")
	}},
	{"a commit meanwhile", "what a commit during a collection refers to stays", func(f *fixture) {
		head := f.commit(f.files(f.newThread(), "reached"))
		f.keep("old", tree("old"), noise(2<<20), tree(noise(2<<20)))
		first := f.commit(f.turn(head))
		now := f.commit(amends(first, head.Head, f.turn(first)))
		var onDropped segno.Head
		f.collect(segno.CollectPolicy{Trace: func(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
			if onDropped.Head == "" {
				now = f.commit(f.files(now, "old"))
				now = f.commit(f.files(now, noise(2<<20)))
				onDropped = f.commit(after(now, first.Head, f.turn(now)))
			}
			return trace(ctx, o, c, visit)
		}})
		f.present("old", tree("old"), noise(2<<20), "reached")
		f.same("a line that begins at an unreachable commit", len(f.line(onDropped.Head, 0)), 4)
	}},
	{"states stay", "every checkpoint that stays has the same state, and every history its checkpoints", testStatesStay},
}

func testReached(f *fixture) {
	one := f.commit(f.files(f.newThread(), "one"))
	head := f.commit(f.files(one, "two"))
	head = f.commit(f.files(head, noise(2<<20)))
	back := f.commit(f.move(head, one.Head, head.Tip))
	aside := f.commit(after(back, one.Head, f.files(back, "aside")))
	state := f.move(aside, one.Head, aside.Tip)
	state.Staged = f.stage(tree("seen"), "seen")
	state.Workspace = &segno.WorkspaceState{Workspace: "w", Snapshot: &segno.Snapshot{Workspace: "w", Tree: hash(tree("seen"))}}
	aside = f.commit(state)
	fork := f.commit(f.base("fork", head.Head))
	member := f.commit(f.files(f.newThread(), "of a member"))
	members := f.turn(fork)
	members.Checkpoint.Members = map[string]segno.CommitID{"member": member.Head}
	fork = f.commit(members)
	f.ok(f.store.Delete(f.Context(), member.Thread))
	f.keep("unreachable", noise(3<<20)+"!")
	want := map[segno.CommitID][]segno.Node{}
	for _, id := range []segno.CommitID{aside.Head, aside.Tip, head.Head, fork.Head, member.Head} {
		want[id] = f.load(id)
	}
	done := f.collect(segno.CollectPolicy{})
	f.same("dropped and kept", []int{done.Checkpoints, done.Objects, done.Kept}, []int{0, 2, 12})
	for id, nodes := range want {
		f.same("a line after the collection", f.load(id), nodes)
	}
	f.present("one", "two", noise(2<<20), "aside", "seen", tree("one"), tree("seen"))
	f.missing("unreachable", noise(3<<20)+"!")
	f.dropped(0, 0)
	f.turns(f.head(aside.Thread), 1)
}

func testAmended(f *fixture) {
	base := f.newThread()
	c := f.files(base, "first end")
	first := f.commit(c)
	second := f.commit(amends(first, base.Head, f.files(first, "second end")))
	head := f.commit(amends(second, base.Head, f.files(second, "third end")))
	f.commit(f.pin(head, second.Head, "wanted"))
	f.dropped(1, 2)
	f.missing("first end", tree("first end"))
	f.present("second end", "third end")
	f.same("what is left", f.find(segno.CheckpointQuery{Thread: head.Thread}), []segno.CommitID{head.Head, second.Head, base.Head})
	f.kind(f.loadErr(first.Head), segno.KindNotFound)
	f.same("by its id", f.find(segno.CheckpointQuery{IDPrefix: string(first.Head)}), []segno.CommitID(nil))
	f.kind(f.commitErr(after(f.head(head.Thread), first.Head, f.turn(head))), segno.KindNotFound)
	f.same("the result of the dropped commit again", f.commit(c), first)
}

func (f *fixture) foldAt(id segno.CommitID) *segno.State {
	f.Helper()
	return returned(segno.Fold(&segno.Line{Commits: f.load(id)})).ok(f)
}

// states returns a hash of the state at every checkpoint in the store.
func (f *fixture) states() map[segno.CommitID]segno.Hash {
	f.Helper()
	all := map[segno.CommitID]segno.Hash{}
	for _, id := range f.find(segno.CheckpointQuery{}) {
		data := returned(json.Marshal(f.foldAt(id))).ok(f)
		all[id] = segno.HashOf(data)
	}
	return all
}

func testStatesStay(f *fixture) {
	saved := f.series(f.address(), 5)
	a := saved[0].ThreadKey
	back := f.undo(a, 2)
	back.State = f.rich(a).State
	elsewhere := f.save(with(back, "elsewhere"))
	f.append(a, intent("1", "tool", `1`))
	namespace := f.series(part(a, "child:1"), 2)
	asked := f.asked(2)
	decision := f.save(decided(asked, approve(asked.Interrupts[1])))
	f.undo(asked.ThreadKey, 1)
	f.save(with(f.latest(asked.ThreadKey), "elsewhere"))
	waits := f.fork(decision.ID, f.address())
	f.remove(asked.ThreadKey)
	gone := f.series(f.address(), 3)
	f.fork(gone[0].ID, f.address())
	f.remove(gone[0].ThreadKey)
	base := f.newThread()
	first := f.commit(f.files(base, "first end"))
	f.commit(amends(first, base.Head, f.files(first, "second end")))
	want := f.states()
	f.dropped(4, 2)
	delete(want, first.Head)
	f.same("the states", f.states(), want)
	f.same("the history", f.historyIDs(a, segno.CheckpointQuery{}), newestFirst(append(saved, elsewhere)...))
	for _, s := range append(saved, namespace...) {
		f.equal("a checkpoint", f.at(s.ThreadKey, s.ID), s)
	}
	f.same("unknown intents", f.fold(a).Unknown, []segno.Entry{intent("1", "tool", `1`)})
	f.same("the open questions of the fork", waiting(f.latest(waits.ThreadKey)), waiting(asked)[:1])
	f.save(decided(f.latest(waits.ThreadKey), approve(asked.Interrupts[0])))
}

// retain collects with a retention.
func (f *fixture) retain(r timeline.Retention) int {
	f.Helper()
	lines := returned(r.Lines(f.Context(), f.store, f.now())).ok(f)
	done, err := f.collectErr(segno.CollectPolicy{Retain: lines})
	f.ok(err)
	return done.Checkpoints
}

// abandoned commits a line of one turn after base and moves the thread back to base.
func (f *fixture) abandoned(base segno.CommitID, head segno.Head, entries ...segno.Entry) (end segno.CommitID, back segno.Head) {
	f.Helper()
	c := f.step(head, entries...)
	c.Parent, c.Checkpoint.Time = base, f.now()
	if len(entries) == 0 {
		c.Checkpoint.Kind = segno.CheckpointTurn
	}
	head = f.commit(c)
	return head.Head, f.commit(f.move(head, base, base))
}

// retentionTests test a collection with a segno.Retention, which also drops abandoned lines.
var retentionTests = []test{
	{"abandoned lines", "a retention drops an abandoned line unless a pointer, pin, fork or open question keeps it", func(f *fixture) {
		head := f.commit(f.turn(f.newThread()))
		base := head.Head
		plain, head := f.abandoned(base, head)
		pinned, head := f.abandoned(base, head)
		asking, head := f.abandoned(base, head, f.asks("1"))
		forked, head := f.abandoned(base, head)
		undone, head := f.abandoned(base, head)
		head = f.commit(f.pin(head, pinned, "wanted"))
		f.commit(f.base("fork", forked))
		if _, ok := f.store.(segno.Workspaces); ok {
			op := f.move(head, base, base)
			op.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: head.Thread, Verb: segno.VerbUndo, Time: f.now(),
				Before: segno.Pointers{Head: undone, Tip: undone}}
			head = f.commit(op)
		}
		f.advance(48 * time.Hour)
		now := f.step(head)
		now.Checkpoint.Time = f.now()
		head = f.commit(now)
		f.same("dropped without a rule", f.retain(timeline.Retention{}), 0)
		f.same("dropped by a rule that keeps all", f.retain(timeline.Retention{KeepFor: 72 * time.Hour}), 0)
		f.same("dropped", f.retain(timeline.Retention{KeepFor: 24 * time.Hour}), 2)
		found := f.find(segno.CheckpointQuery{Thread: head.Thread})
		for _, id := range []segno.CommitID{pinned, asking, forked, base, head.Head} {
			if !slices.Contains(found, id) {
				f.Errorf("%s is missing", id)
			}
		}
		f.kind(f.loadErr(plain), segno.KindNotFound)
		f.kind(f.loadErr(undone), segno.KindNotFound)
		f.turns(f.head(head.Thread), 1)
	}},
}
