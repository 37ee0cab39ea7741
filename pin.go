package segno

import (
	"context"
	"slices"
	"strings"
)

// Pin gives a checkpoint one more name, under which it is kept whatever the policy says.
// called is how the user named the checkpoint; the operation log shows it.
func (m *Mover) Pin(ctx context.Context, at CommitID, called, name string) error {
	return m.pin(ctx, at, []string{name}, nil, &Operation{Verb: VerbPin, Args: strings.TrimSpace(called + " " + name)})
}

// Unpin takes names off a checkpoint.
func (m *Mover) Unpin(ctx context.Context, at CommitID, called string, names ...string) error {
	return m.pin(ctx, at, nil, names, &Operation{Verb: VerbUnpin, Args: called})
}

// unpinBack undoes a pin or an unpin. Names that the checkpoint was given since stay.
func (m *Mover) unpinBack(ctx context.Context, done Operation) error {
	before, after := PinNames(done.Unpinned), PinNames(done.Pin.Name)
	return m.pin(ctx, done.Pin.Checkpoint, without(before, after), without(after, before), &Operation{Verb: VerbOpUndo, Args: short(done.ID), Undoes: done.ID})
}

func without(names, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(gone, n) })
}

// pin changes the names of a checkpoint. It holds the site's lock, so that two processes
// that pin the same checkpoint both succeed.
func (m *Mover) pin(ctx context.Context, at CommitID, add, remove []string, op *Operation) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := m.checkpoint(ctx, at)
	if err != nil {
		return err
	}
	for p, err := range m.Store.Checkpoints(ctx, CheckpointQuery{Pinned: true}) {
		if err != nil {
			return err
		}
		if p.ID == c.ID {
			op.Unpinned = p.Label
		}
	}
	label := ""
	for _, name := range append(without(PinNames(op.Unpinned), remove), add...) {
		label = WithPinName(label, name)
	}
	head, err := m.Store.Head(ctx, c.Thread)
	if err != nil {
		return err
	}
	op.ID, op.Workspace, op.Thread, op.Time = OperationID(NewID()), m.Workspace.ID(), c.Thread, m.Now()
	op.Pin = &Pin{Checkpoint: c.ID, Name: label}
	_, err = m.land(ctx, Commit{ID: CommitID(NewID()), Thread: c.Thread, Expect: head.Head, Epoch: head.Epoch, Pin: op.Pin, Operation: op})
	return err
}
