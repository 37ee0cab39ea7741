package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// Travel moves the pointers of threads that have no files to move with them:
// those of Go agents and of savers. Nothing is truncated; each method is one
// commit. Where there is a workspace, [Timeline] does it.
type Travel struct {
	Store segno.Store
	// Stops says at which checkpoints undo and redo stop; nil is at every one. A
	// thread's first checkpoint is always a stop.
	Stops func(*segno.Checkpoint) bool
	// Between lets Fork begin at a commit between two checkpoints, too.
	Between bool
}

// Turns makes undo and redo count turns instead of steps.
func Turns(c *segno.Checkpoint) bool {
	return c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointBase
}

// Undo takes the thread n stops back. If it has fewer behind it, nothing moves and
// the error has [KindNotFound].
func (t Travel) Undo(ctx context.Context, thread segno.ThreadID, n int) (segno.Head, error) {
	head, err := t.Store.Head(ctx, thread)
	if err != nil {
		return head, err
	}
	stops, err := t.stops(ctx, head.Head)
	if err != nil {
		return head, err
	}
	// A head between two stops goes back to the one before it first.
	at := len(stops) - 1
	if at >= 0 && stops[at] == head.Head {
		at--
	}
	if at -= n - 1; n < 1 || at < 0 {
		return head, segno.Errorf(segno.KindNotFound, "undo", string(thread), "there are not %d to undo", n)
	}
	return t.move(ctx, head, stops[at], head.Tip)
}

// Redo takes the thread n stops forward, towards its tip.
func (t Travel) Redo(ctx context.Context, thread segno.ThreadID, n int) (segno.Head, error) {
	head, err := t.Store.Head(ctx, thread)
	if err != nil {
		return head, err
	}
	below, err := t.Store.Load(ctx, head.Head, segno.Window{})
	if err != nil {
		return head, err
	}
	known := map[segno.CommitID]bool{}
	for _, c := range below.Commits {
		known[c.ID] = true
	}
	stops, err := t.stops(ctx, head.Tip)
	if err != nil {
		return head, err
	}
	if len(stops) == 0 || stops[len(stops)-1] != head.Tip {
		stops = append(stops, head.Tip) // a turn that was broken off ends there
	}
	left := 0
	for _, at := range stops {
		if known[at] {
			continue
		}
		if left++; left == n {
			return t.move(ctx, head, at, head.Tip)
		}
	}
	why := fmt.Errorf("only %d can be redone", left)
	if left == 0 {
		why = errors.New("there is nothing to redo")
	}
	return head, segno.NewError(segno.KindNotFound, "redo", string(thread), why)
}

// stops returns the stops at and above a commit, oldest first.
func (t Travel) stops(ctx context.Context, at segno.CommitID) (ids []segno.CommitID, err error) {
	line, err := t.Store.Load(ctx, at, segno.Window{})
	if err != nil {
		return nil, err
	}
	for _, n := range line.Commits {
		c := n.Checkpoint
		if c == nil || t.Stops != nil && len(ids) > 0 && !t.Stops(c) {
			continue
		}
		if last := len(ids) - 1; t.Stops != nil && c.Kind == segno.CheckpointBase && last >= 0 && ids[last] == c.Parent {
			ids[last] = n.ID // where a fork begins is where its source stood
			continue
		}
		ids = append(ids, n.ID)
	}
	return ids, nil
}

// Restore puts the thread's head on any checkpoint of its own or of its ancestry.
// Redo still reaches the tip if the checkpoint is its ancestor.
func (t Travel) Restore(ctx context.Context, thread segno.ThreadID, to segno.CommitID) (segno.Head, error) {
	head, err := t.Store.Head(ctx, thread)
	if err != nil {
		return head, err
	}
	target, err := t.Store.Load(ctx, to, segno.Window{Last: 1})
	if err != nil {
		return head, err
	}
	if target.Commits[0].Checkpoint == nil {
		return head, segno.Errorf(segno.KindInvalid, "restore", string(to), "it is no checkpoint")
	}
	line, err := t.Store.Load(ctx, head.Tip, segno.Window{})
	if err != nil {
		return head, err
	}
	tip := to
	for _, n := range line.Commits {
		if n.ID == to {
			tip = head.Tip
		}
	}
	if tip == to && target.Commits[0].Thread != thread && to != head.Tip {
		return head, segno.Errorf(segno.KindRefused, "restore", string(to), "it belongs to another thread").WithHint("fork there instead")
	}
	return t.move(ctx, head, to, tip)
}

func (t Travel) move(ctx context.Context, head segno.Head, to, tip segno.CommitID) (segno.Head, error) {
	return t.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch,
		Move: &segno.Move{Head: to, Tip: tip}})
}

// Fork makes a thread that begins at a checkpoint. It costs one small commit,
// however long the line is.
func (t Travel) Fork(ctx context.Context, at segno.CommitID, as segno.Thread) (segno.Head, error) {
	if there, err := t.Store.Head(ctx, as.ID); err == nil {
		return segno.Head{}, segno.NewError(segno.KindConflict, "fork", string(as.ID), &segno.ConflictError{Actual: there}).WithHint("fork to a name that is free")
	}
	from, err := t.below(ctx, at)
	if err != nil {
		return segno.Head{}, err
	}
	as.Parent = at
	c := *from
	c.Kind, c.Time, c.Key, c.Label, c.Amends = segno.CheckpointBase, as.Created, "", "", ""
	head, err := t.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: as.ID, Create: &as, Parent: at, Checkpoint: &c})
	if segno.KindOf(err) == segno.KindNotFound {
		err = segno.Errorf(segno.KindRefused, "fork", string(as.ID), "a thread of that name was deleted").WithHint("fork to another name")
	}
	return head, err
}

// relativeTo is the checkpoint that a fork begins with: at itself, or the newest below it.
func (t Travel) below(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, error) {
	for last := 1; ; last *= 8 {
		line, err := t.Store.Load(ctx, at, segno.Window{Last: last})
		if err != nil {
			return nil, err
		}
		for i := len(line.Commits) - 1; i >= 0; i-- {
			if c := line.Commits[i].Checkpoint; c != nil {
				return c, nil
			}
			if !t.Between {
				return nil, segno.Errorf(segno.KindInvalid, "fork", string(at), "it is no checkpoint")
			}
		}
		if len(line.Commits) < last {
			return nil, segno.Errorf(segno.KindInvalid, "fork", string(at), "there is no checkpoint below it")
		}
	}
}
