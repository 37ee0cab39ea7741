package storetest

import (
	"fmt"

	"github.com/dalsegno/segno"
)

func turnTravels() []clause {
	return []clause{
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
