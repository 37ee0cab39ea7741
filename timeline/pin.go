package timeline

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Pin adds a name to a checkpoint. No policy collects a checkpoint with a name. called is the
// user's term for the checkpoint, for the operation log. The error has [segno.KindConflict] if another checkpoint of the
// thread has the name.
func (tl *Timeline) Pin(ctx context.Context, at segno.CommitID, called, name string) error {
	return tl.pin(ctx, at, []string{name}, nil, &segno.Operation{Verb: segno.VerbPin, Args: strings.TrimSpace(called + " " + name)})
}

// Unpin removes names from a checkpoint.
func (tl *Timeline) Unpin(ctx context.Context, at segno.CommitID, called string, names ...string) error {
	return tl.pin(ctx, at, nil, names, &segno.Operation{Verb: segno.VerbUnpin, Args: called})
}

// unpinBack undoes a pin or an unpin. It keeps the names that the checkpoint got since then.
func (tl *Timeline) unpinBack(ctx context.Context, done segno.Operation) error {
	add, remove := namesBack(done)
	return tl.pin(ctx, done.Pin.Checkpoint, add, remove, &segno.Operation{Verb: segno.VerbOpUndo, Args: shortID(done.ID), Undoes: done.ID})
}

// refuseUnpinBack returns the error with which unpinBack would refuse, or nil.
func (tx *txn) refuseUnpinBack(ctx context.Context, done segno.Operation) error {
	c, err := tx.checkpoint(ctx, done.Pin.Checkpoint)
	if err != nil {
		return err
	}
	add, _ := namesBack(done)
	_, err = tx.PinNames(ctx, c, add...)
	return err
}

// namesBack returns the names that the undo of a pin or an unpin adds and removes.
func namesBack(done segno.Operation) (add, remove []string) {
	before, after := segno.PinNames(done.Unpinned), segno.PinNames(done.Pin.Name)
	return without(before, after), without(after, before)
}

func without(names, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(gone, n) })
}

// pin changes the names of a checkpoint. It holds the workspace's lock, so that two processes
// that pin the same checkpoint both succeed. A timeline without a workspace has no log of operations.
func (tl *Timeline) pin(ctx context.Context, at segno.CommitID, add, remove []string, op *segno.Operation) error {
	tx := tl.unlocked()
	if tl.Workspace != nil {
		var err error
		if tx, err = tl.prepareMove(ctx); err != nil {
			return err
		}
		defer tx.unlock()
	}
	c, err := tx.checkpoint(ctx, at)
	if err != nil {
		return err
	}
	before, err := tl.PinNames(ctx, c, add...)
	if err != nil {
		return err
	}
	label := func(names []string) (label string) {
		for _, name := range names {
			label = segno.WithPinName(label, name)
		}
		return label
	}
	head, err := tx.Store.Head(ctx, c.Thread)
	if err != nil {
		return err
	}
	commit := newCommit(head)
	commit.Pin = &segno.Pin{Checkpoint: c.ID, Name: label(append(without(before, remove), add...))}
	if tl.Workspace == nil {
		_, err = tx.Store.Commit(ctx, commit)
		return err
	}
	op.ID, op.Workspace, op.Thread, op.Time = segno.OperationID(segno.NewID()), tx.Workspace.ID(), c.Thread, tx.Now()
	op.Actor, op.Pin, op.Unpinned, commit.Operation = tx.Actor, commit.Pin, label(before), op
	_, err = tx.commitRetryingCAS(ctx, commit)
	return err
}

// PinNames returns the names of a checkpoint. The error has [segno.KindConflict] if another checkpoint of its thread
// has one of the names in add.
func (tl *Timeline) PinNames(ctx context.Context, c *segno.Checkpoint, add ...string) (names []string, err error) {
	for p, err := range tl.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		has := segno.PinNames(p.Label)
		if p.ID == c.ID {
			names = has
			continue
		}
		for _, name := range add {
			if p.Thread == c.Thread && slices.Contains(has, name) {
				return nil, segno.Errorf(segno.KindConflict, "pin", name, "another checkpoint of the thread has this name").
					WithHint("choose another name, or run 'segno unpin' with this one first")
			}
		}
	}
	return names, nil
}
