package storetest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
)

// gc is a fixture whose store can collect.
type gc struct {
	*fixture
	segno.Collector
}

// collections are the clauses of a store that can drop what nothing reaches. They
// need a clock, for nothing young is ever dropped.
func collections() []clause {
	var all []clause
	for _, c := range []struct {
		name, rule string
		test       func(g gc)
	}{
		{"what is reached stays", "heads, tips, lines, forks, pins, operations and workspaces keep what they reach, and after a collection every kept checkpoint loads as before", reachedStays},
		{"the amended go", "a checkpoint that was amended is dropped once nothing reaches it, with what only it reached", amendedGo},
		{"a deleted thread goes", "of a deleted thread goes what no fork reaches", deletedGo},
		{"young objects stay", "an object lives an hour whatever reaches it, so that a batch is safe until its commit", youngStay},
		{"a dry run", "a dry run counts and drops nothing", dryRun},
		{"open turns", "what the policy names stays: open turns are not in the store yet", openTurns},
		{"a batch that found an object", "a commit whose batch found an object that was collected meanwhile fails, and names it", foundThenCollected},
		{"a commit meanwhile", "what a commit made during a collection names stays, though nothing reached it when the collection began", committedMeanwhile},
		{"no trace, no drop", "without a Trace no object is dropped", noTrace},
		{"a collected commit again", "a commit that was collected is still known by its id", collectedAgain},
		{"what waits stays", "a line with an open interrupt stays, though it was left, forked away from or its thread deleted under a fork", waitingStays},
		{"states stay", "after a collection every checkpoint that is kept adds up to the same state", statesStay},
		{"members stay", "a checkpoint keeps its members in other threads", membersStay},
	} {
		all = append(all, clause{c.name, c.rule, func(f *fixture) {
			c.test(gc{f, f.store.(segno.Collector)})
		}})
	}
	return all
}

func (g gc) collect(p segno.CollectPolicy) segno.Collection {
	g.Helper()
	p.Trace = trace
	done, err := g.Collect(g.Context(), p)
	g.ok(err)
	return done
}

// snap is a turn that pins a tree of one file of its own.
func (g gc) snap(head segno.Head, file string) segno.Commit {
	g.Helper()
	c := g.next(head)
	c.Staged = g.stage(file, tree(file))
	c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Tree: name(tree(file))}
	return c
}

func (g gc) gone(data ...string) {
	g.Helper()
	for _, d := range data {
		if g.has(d) {
			g.Fatalf("%.40q is still there", d)
		}
		_, err := g.store.Objects().Get(g.Context(), name(d))
		g.kind(err, segno.KindNotFound)
	}
}

func reachedStays(g gc) {
	head := g.commit(g.snap(g.thread(), "one"))
	one := head.Head
	head = g.commit(g.snap(head, "two"))
	head = g.commit(g.snap(head, noise(2<<20)))
	back := g.commit(g.move(head, one, head.Tip))
	aside := g.commit(at(back, one, g.snap(back, "aside")))
	state := g.move(aside, one, aside.Tip)
	state.Staged = g.stage(tree("seen"), "seen")
	state.Workspace = &segno.WorkspaceState{Workspace: "w", Snapshot: &segno.Snapshot{Workspace: "w", Tree: name(tree("seen"))}}
	aside = g.commit(state)
	fork := g.commit(g.base("fork", head.Head))
	g.ok(g.store.Objects().Keep(g.Context(), g.stage("kept by nobody", noise(3<<20)+"!")))
	want := map[segno.CommitID][]segno.Node{}
	for _, id := range []segno.CommitID{aside.Head, aside.Tip, head.Head, fork.Head} {
		want[id] = g.load(id)
	}
	g.o.Clock.Advance(2 * time.Hour)
	done := g.collect(segno.CollectPolicy{})
	g.same("dropped checkpoints", done.Checkpoints, 0)
	g.same("dropped objects", done.Objects, 2)
	g.same("kept objects", done.Kept, 10)
	for id, nodes := range want {
		g.same("a line after the collection", g.load(id), nodes)
	}
	g.holds("one", "two", noise(2<<20), "aside", "seen", tree("one"), tree("seen"))
	g.gone("kept by nobody", noise(3<<20)+"!")
	g.same("a second collection", g.collect(segno.CollectPolicy{}).Objects, 0)
	g.turns(g.head(aside.Thread), 1)
}

func amendedGo(g gc) {
	base := g.thread()
	first := g.commit(g.snap(base, "first end"))
	amend := at(first, base.Head, g.snap(first, "second end"))
	amend.Checkpoint.Turn, amend.Checkpoint.Amends = 1, first.Head
	second := g.commit(amend)
	third := at(second, base.Head, g.snap(second, "third end"))
	third.Checkpoint.Turn, third.Checkpoint.Amends = 1, second.Head
	head := g.commit(third)
	pin := g.move(head, head.Head, head.Tip)
	pin.Pin = &segno.Pin{Checkpoint: second.Head, Name: "wanted"}
	g.commit(pin)
	g.o.Clock.Advance(2 * time.Hour)
	done := g.collect(segno.CollectPolicy{})
	g.same("dropped checkpoints", done.Checkpoints, 1)
	g.same("dropped objects", done.Objects, 2)
	g.gone("first end", tree("first end"))
	g.holds("second end", "third end")
	g.same("what is left", g.listed(segno.CheckpointQuery{Thread: head.Thread}), []segno.CommitID{head.Head, second.Head, base.Head})
	_, err := g.store.Load(g.Context(), first.Head, segno.Window{})
	g.kind(err, segno.KindNotFound)
	g.same("by its id", g.listed(segno.CheckpointQuery{IDPrefix: string(first.Head)}), []segno.CommitID(nil))
	_, err = g.store.Commit(g.Context(), at(g.head(head.Thread), first.Head, g.next(head)))
	g.kind(err, segno.KindNotFound)
}

func deletedGo(g gc) {
	head := g.thread()
	one := g.commit(g.snap(head, "shared with the fork"))
	two := g.snap(one, noise(2<<20))
	two.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: head.Thread, Verb: segno.VerbRedo, Time: epoch, After: segno.Pointers{Head: two.ID}}
	two.Link = &segno.Link{Session: "s", Start: epoch}
	g.commit(two)
	fork := g.commit(g.base("fork", one.Head))
	line := g.load(fork.Head)
	g.ok(g.store.Delete(g.Context(), head.Thread))
	g.o.Clock.Advance(2 * time.Hour)
	done := g.collect(segno.CollectPolicy{})
	g.same("dropped checkpoints", done.Checkpoints, 1)
	g.same("dropped objects", done.Objects, 2)
	g.gone(noise(2<<20), tree(noise(2<<20)))
	g.holds("shared with the fork")
	g.same("the fork's line", g.load(fork.Head), line)
	_, err := g.store.Load(g.Context(), two.ID, segno.Window{})
	g.kind(err, segno.KindNotFound)
	g.ok(g.store.Delete(g.Context(), "fork"))
	g.same("once the fork is deleted too", g.collect(segno.CollectPolicy{}).Checkpoints, 3)
	g.gone("shared with the fork")
}

func youngStay(g gc) {
	staged := g.stage("young", noise(2<<20))
	g.ok(g.store.Objects().Keep(g.Context(), staged))
	g.o.Clock.Advance(59 * time.Minute)
	g.same("after 59 minutes", g.collect(segno.CollectPolicy{}).Objects, 0)
	g.holds("young", noise(2<<20))
	g.ok(g.store.Objects().Keep(g.Context(), g.stage("young")))
	g.o.Clock.Advance(2 * time.Minute)
	g.same("what was kept again", g.collect(segno.CollectPolicy{}).Objects, 1)
	g.holds("young")
	g.gone(noise(2 << 20))
	waiting := g.stage("waiting", noise(2<<20))
	g.o.Clock.Advance(59 * time.Minute)
	g.collect(segno.CollectPolicy{})
	g.ok(g.store.Objects().Keep(g.Context(), waiting))
	g.holds("waiting", noise(2<<20))
}

func dryRun(g gc) {
	g.ok(g.store.Objects().Keep(g.Context(), g.stage("nobody's")))
	head := g.thread()
	g.ok(g.store.Delete(g.Context(), head.Thread))
	g.o.Clock.Advance(2 * time.Hour)
	counted := g.collect(segno.CollectPolicy{DryRun: true})
	g.same("counted", []int{counted.Checkpoints, counted.Objects}, []int{1, 1})
	g.holds("nobody's")
	g.path(head.Head, 0)
	g.same("dropped", g.collect(segno.CollectPolicy{}), counted)
	g.gone("nobody's")
}

func openTurns(g gc) {
	g.ok(g.store.Objects().Keep(g.Context(), g.stage(tree("before"), "before", "nobody's")))
	g.o.Clock.Advance(2 * time.Hour)
	open := segno.Checkpoint{Workspace: &segno.Snapshot{Tree: name(tree("before"))}}
	g.same("dropped", g.collect(segno.CollectPolicy{Checkpoints: []segno.Checkpoint{open}}).Objects, 1)
	g.holds(tree("before"), "before")
}

func foundThenCollected(g gc) {
	head := g.thread()
	g.ok(g.store.Objects().Keep(g.Context(), g.stage("old")))
	g.o.Clock.Advance(2 * time.Hour)
	c := g.next(head)
	c.Staged = g.stage("old", "new")
	g.collect(segno.CollectPolicy{})
	_, err := g.store.Commit(g.Context(), c)
	g.kind(err, segno.KindNotFound)
	g.same("the head", g.head(head.Thread), head)
	c.Staged = g.stage("old", "new")
	g.commit(c)
	g.holds("old", "new")
}

func committedMeanwhile(g gc) {
	head := g.commit(g.snap(g.thread(), "reached"))
	g.ok(g.store.Objects().Keep(g.Context(), g.stage("old", tree("old"), noise(2<<20), tree(noise(2<<20)))))
	first := g.next(head)
	amended := g.commit(first)
	amend := at(amended, head.Head, g.next(amended))
	amend.Checkpoint.Amends = first.ID
	now := g.commit(amend)
	g.o.Clock.Advance(2 * time.Hour)
	done := false
	var onDropped segno.Head
	_, err := g.Collect(g.Context(), segno.CollectPolicy{Trace: func(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
		if !done {
			done = true
			now = g.commit(g.snap(now, "old"))
			now = g.commit(g.snap(now, noise(2<<20)))
			onDropped = g.commit(at(now, first.ID, g.next(now)))
		}
		return trace(ctx, o, c, visit)
	}})
	g.ok(err)
	g.same("whether it looked", done, true)
	g.holds("old", tree("old"), noise(2<<20), "reached")
	g.same("a line from what would have been dropped", len(g.path(onDropped.Head, 0)), 4)
}

func noTrace(g gc) {
	g.ok(g.store.Objects().Keep(g.Context(), g.stage("nobody's")))
	g.o.Clock.Advance(2 * time.Hour)
	done, err := g.Collect(g.Context(), segno.CollectPolicy{})
	g.ok(err)
	g.same("dropped", done.Objects, 0)
	g.holds("nobody's")
}

func collectedAgain(g gc) {
	base := g.thread()
	c := g.next(base)
	first := g.commit(c)
	amend := at(first, base.Head, g.next(first))
	amend.Checkpoint.Amends = c.ID
	head := g.commit(amend)
	g.o.Clock.Advance(2 * time.Hour)
	g.same("dropped", g.collect(segno.CollectPolicy{}).Checkpoints, 1)
	g.same("its result", g.commit(c), first)
	g.same("the head", g.head(base.Thread), head)
}

func membersStay(g gc) {
	world := g.thread()
	cut := g.commit(g.snap(world, "the world"))
	run := g.thread()
	c := g.next(run)
	c.Checkpoint.Members = map[string]segno.CommitID{"world": cut.Head}
	g.commit(c)
	g.ok(g.store.Delete(g.Context(), world.Thread))
	g.o.Clock.Advance(2 * time.Hour)
	g.same("dropped", g.collect(segno.CollectPolicy{}).Checkpoints, 0)
	g.holds("the world")
	g.path(cut.Head, 0)
}

// hashes are what every checkpoint in the store adds up to.
func (g gc) hashes() map[segno.CommitID]segno.Hash {
	g.Helper()
	all := map[segno.CommitID]segno.Hash{}
	for _, c := range g.list(segno.CheckpointQuery{}) {
		state, err := segno.Fold(&segno.Line{Commits: g.load(c.ID)})
		g.ok(err)
		data, err := json.Marshal(state)
		g.ok(err)
		all[c.ID] = segno.HashOf(data)
	}
	return all
}

func waitingStays(g gc) {
	s := g.asked(2)
	left := g.save(decided(s, approve(s.Interrupts[1])))
	g.undo(s.ThreadKey, 1)
	g.save(more(g.get(s.ThreadKey), "elsewhere"))
	fork := g.fork(left.ID, g.address())
	g.ok(g.saver.Delete(g.Context(), s.ThreadKey))
	g.same("dropped", g.collected().Checkpoints, 1)
	g.same("what waits in the fork", waiting(g.get(fork.ThreadKey)), waiting(s)[:1])
	g.save(decided(g.get(fork.ThreadKey), approve(s.Interrupts[0])))
}

func statesStay(g gc) {
	all := g.grown(g.address(), 5)
	a := all[0].ThreadKey
	back := g.undo(a, 2)
	back.State = g.rich(a).State
	g.save(more(back, "elsewhere"))
	g.after(a, intent("1", "tool", `1`))
	gone := g.grown(g.address(), 3)
	g.fork(gone[0].ID, g.address())
	g.ok(g.saver.Delete(g.Context(), gone[0].ThreadKey))
	base := g.thread()
	first := g.commit(g.snap(base, "first end"))
	amend := at(first, base.Head, g.snap(first, "second end"))
	amend.Checkpoint.Turn, amend.Checkpoint.Amends = 1, first.Head
	g.commit(amend)
	before := g.hashes()
	g.same("dropped", g.collected().Checkpoints, 3)
	after := g.hashes()
	delete(before, first.Head) // it was amended
	g.same("the states", after, before)
	for _, s := range all {
		g.alike("one of a line", g.at(a, s.ID), s)
	}
}
