package timeline

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Pin adds a name to a checkpoint. No policy collects a checkpoint with a name. called is the
// user's term for the checkpoint, for the operation log.
func (tl *Timeline) Pin(ctx context.Context, at segno.CommitID, called, name string) error {
	return tl.pin(ctx, at, []string{name}, nil, &segno.Operation{Verb: segno.VerbPin, Args: strings.TrimSpace(called + " " + name)})
}

// Unpin removes names from a checkpoint.
func (tl *Timeline) Unpin(ctx context.Context, at segno.CommitID, called string, names ...string) error {
	return tl.pin(ctx, at, nil, names, &segno.Operation{Verb: segno.VerbUnpin, Args: called})
}

// unpinBack undoes a pin or an unpin. It keeps the names that the checkpoint got since then.
func (tl *Timeline) unpinBack(ctx context.Context, done segno.Operation) error {
	before, after := segno.PinNames(done.Unpinned), segno.PinNames(done.Pin.Name)
	return tl.pin(ctx, done.Pin.Checkpoint, without(before, after), without(after, before), &segno.Operation{Verb: segno.VerbOpUndo, Args: shortID(done.ID), Undoes: done.ID})
}

func without(names, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(gone, n) })
}

// pin changes the names of a checkpoint. It holds the workspace's lock, so that two processes
// that pin the same checkpoint both succeed.
func (tl *Timeline) pin(ctx context.Context, at segno.CommitID, add, remove []string, op *segno.Operation) error {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	c, err := tx.checkpoint(ctx, at)
	if err != nil {
		return err
	}
	for p, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return err
		}
		if p.ID == c.ID {
			op.Unpinned = p.Label
		}
	}
	label := ""
	for _, name := range append(without(segno.PinNames(op.Unpinned), remove), add...) {
		label = segno.WithPinName(label, name)
	}
	head, err := tx.Store.Head(ctx, c.Thread)
	if err != nil {
		return err
	}
	op.ID, op.Workspace, op.Thread, op.Time = segno.OperationID(segno.NewID()), tx.Workspace.ID(), c.Thread, tx.Now()
	op.Pin = &segno.Pin{Checkpoint: c.ID, Name: label}
	commit := newCommit(head)
	commit.Pin, commit.Operation = op.Pin, op
	_, err = tx.commitRetryingCAS(ctx, commit)
	return err
}
