package storetest

import (
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

func turnTravels() []clause {
	return []clause{
		{"by turns", "undo and redo can count turns: steps inside one are passed over, and a turn that was broken off ends at its last step", byTurns},
		{"a first step", "a thread's first checkpoint is a stop, whatever it is", firstStep},
		{"between two saves", "entries that were committed after a checkpoint are taken back with it", betweenSaves},
		{"what a fork takes along", "a fork's base has the tiers of its checkpoint and is no turn, no label and no amendment of its own", forkTakesAlong},
		{"what a fold tells", "a state names its commit, step, turn and parent, and a copy of it goes its own way", foldTells},
	}
}

// ladder commits one checkpoint of each kind, each on the one before.
func (f *fixture) ladder(kinds ...segno.CheckpointKind) segno.Head {
	f.Helper()
	head := f.thread()
	for i, kind := range kinds {
		c := f.next(head)
		c.ID = segno.CommitID(fmt.Sprintf("%s %d", kind, i+1))
		c.Checkpoint.Kind, c.Checkpoint.Step = kind, i+1
		head = f.commit(c)
	}
	return head
}

// goes wants a move to end at a commit, or to be refused and leave the head.
func (f *fixture) goes(what string, to segno.CommitID, move func() (segno.Head, error)) {
	f.Helper()
	head, err := move()
	if to == "" {
		f.kind(err, segno.KindNotFound)
		return
	}
	f.ok(err)
	f.same(what, head.Head, to)
	f.same("the head after "+what, f.head(head.Thread).Head, to)
}

func byTurns(f *fixture) {
	const step, turn = segno.CheckpointStep, segno.CheckpointTurn
	head := f.ladder(step, step, turn, step, turn, step)
	base := f.path(head.Head, 0)[0]
	travel := timeline.Travel{Store: f.store, Stops: timeline.Turns}
	undo := func(n int, to segno.CommitID) {
		f.Helper()
		f.goes(fmt.Sprint("undo ", n), to, func() (segno.Head, error) { return travel.Undo(f.Context(), head.Thread, n) })
	}
	redo := func(n int, to segno.CommitID) {
		f.Helper()
		f.goes(fmt.Sprint("redo ", n), to, func() (segno.Head, error) { return travel.Redo(f.Context(), head.Thread, n) })
	}
	undo(1, "turn 5")
	undo(1, "turn 3")
	redo(1, "turn 5")
	redo(1, "step 6")
	redo(1, "")
	undo(2, "turn 3")
	redo(2, "step 6")
	undo(3, base)
	undo(1, "")
	redo(3, "step 6")
	undo(4, "")
	steps := timeline.Travel{Store: f.store}
	f.goes("one step back", "turn 5", func() (segno.Head, error) { return steps.Undo(f.Context(), head.Thread, 1) })
	f.goes("another", "step 4", func() (segno.Head, error) { return steps.Undo(f.Context(), head.Thread, 1) })
	undo(1, "turn 3")
	f.same("the tip", f.head(head.Thread).Tip, segno.CommitID("step 6"))
}

func firstStep(f *fixture) {
	c := f.base("thread", "")
	c.Checkpoint.Kind = segno.CheckpointStep
	head := f.commit(c)
	head = f.mark(head, "two", 2, nil)
	head = f.mark(head, "three", 3, nil)
	travel := timeline.Travel{Store: f.store, Stops: timeline.Turns}
	f.goes("undo", c.ID, func() (segno.Head, error) { return travel.Undo(f.Context(), head.Thread, 1) })
	f.goes("undo of the first", "", func() (segno.Head, error) { return travel.Undo(f.Context(), head.Thread, 1) })
	f.goes("redo", "three", func() (segno.Head, error) { return travel.Redo(f.Context(), head.Thread, 1) })
}

func betweenSaves(f *fixture) {
	head := f.ladder(segno.CheckpointStep, segno.CheckpointStep)
	c := f.next(head)
	c.Checkpoint = nil
	head = f.commit(c)
	travel := timeline.Travel{Store: f.store}
	f.goes("undo", "step 2", func() (segno.Head, error) { return travel.Undo(f.Context(), head.Thread, 1) })
	f.goes("redo", c.ID, func() (segno.Head, error) { return travel.Redo(f.Context(), head.Thread, 1) })
	f.goes("two back", "step 1", func() (segno.Head, error) { return travel.Undo(f.Context(), head.Thread, 2) })
	_, err := travel.Fork(f.Context(), c.ID, segno.Thread{ID: "fork", Created: epoch})
	f.kind(err, segno.KindInvalid)
	_, err = f.store.Head(f.Context(), "fork")
	f.kind(err, segno.KindNotFound)
}

func forkTakesAlong(f *fixture) {
	c := f.next(f.thread())
	c.Staged = f.stage(tree("data"), "data")
	c.Checkpoint = full(tree("data"), "data")
	head := f.commit(c)
	fork, err := timeline.Travel{Store: f.store}.Fork(f.Context(), head.Head, segno.Thread{ID: "fork", Created: epoch, Title: "a fork"})
	f.ok(err)
	want := *full(tree("data"), "data")
	want.ID, want.Thread, want.Parent, want.Seq = fork.Head, "fork", head.Head, 1
	want.Kind, want.Time, want.Key, want.Label, want.Amends = segno.CheckpointBase, epoch, "", "", ""
	f.same("its base", *f.load(fork.Head)[2].Checkpoint, want)
	for t, err := range f.store.Threads(f.Context(), segno.ThreadQuery{IDPrefix: "fork"}) {
		f.ok(err)
		f.same("the thread", t, segno.Thread{ID: "fork", Created: epoch, Title: "a fork", Parent: head.Head})
	}
	f.same("its turn", fork.Turn, want.Turn)
}

func foldTells(f *fixture) {
	head := f.ladder(segno.CheckpointStep, segno.CheckpointTurn)
	save := f.next(head)
	save.Checkpoint.Kind, save.Checkpoint.Turn = segno.CheckpointSave, 2
	head = f.commit(save)
	alone := f.next(head)
	alone.Checkpoint = nil
	alone.Entries = append(alone.Entries, segno.Entry{Kind: segno.EntryNote, Body: []byte(`"no message"`)}, segno.Entry{Kind: "of the future", Body: []byte(`{}`)})
	head = f.commit(alone)
	nodes := f.load(head.Head)
	state, err := segno.Fold(&segno.Line{Commits: nodes[:len(nodes)-1]})
	f.ok(err)
	copied := state.Clone()
	f.ok(copied.Add(&nodes[len(nodes)-1]))
	f.same("the commits", []segno.CommitID{state.At, copied.At}, []segno.CommitID{save.ID, alone.ID})
	f.same("step and turn", []int{copied.Step, copied.Turn}, []int{2, 2})
	f.same("the parent", copied.Parent, segno.CommitID("turn 2"))
	f.same("messages", []int{len(state.Messages), len(copied.Messages)}, []int{3, 4})
	copied.Messages[0] = []byte(`"changed"`)
	f.same("the first message", string(state.Messages[0]), string(nodes[1].Entries[0].Body))
}
