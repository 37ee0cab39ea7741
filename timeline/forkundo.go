package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// MakesFork reports whether undoing an operation makes a fork again: the operation is an undo of a
// fork, and not itself a fork.
func (tl *Timeline) MakesFork(ctx context.Context, op segno.Operation) (bool, error) {
	_, undoes, err := tl.unlocked().forkOf(ctx, op)
	return undoes, err
}

// forkOf returns the fork operation that op refers to, with the current thread of the fork, and
// whether op undid the fork. A fork that was undone and made again has a new thread.
func (tx *txn) forkOf(ctx context.Context, op segno.Operation) (fork segno.Operation, undoes bool, err error) {
	var all []segno.Operation
	for o, err := range tx.operations(ctx) {
		if err != nil {
			return fork, false, err
		}
		if o.Forked != "" {
			all = append(all, o)
		}
	}
	first := op.ID
	for _, o := range all { // newest first
		if o.ID == first && o.Undoes != "" {
			first = o.Undoes
		}
	}
	depth := map[segno.OperationID]int{} // the number of undos and redos, even for those that made a thread
	for _, o := range slices.Backward(all) {
		below, related := depth[o.Undoes]
		switch {
		case o.ID == first:
			depth[o.ID], fork = 0, o
		case related:
			depth[o.ID] = below + 1
			if below%2 == 1 {
				fork.Forked = o.Forked
			}
		}
	}
	if fork.ID == "" {
		return fork, false, segno.NewError(segno.KindNotFound, "op undo", string(op.ID), errors.New("the fork is not in the operation log"))
	}
	return fork, depth[op.ID]%2 == 1, nil
}

// undoFork undoes a fork, or the undo of a fork. Undoing a fork deletes its thread, if that has
// nothing but the first checkpoint; otherwise undoFork refuses. The directory stays in both cases.
func (tl *Timeline) undoFork(ctx context.Context, op segno.Operation) error {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	fork, again, err := tx.forkOf(ctx, op)
	if err != nil {
		return err
	}
	base, err := tx.forkedAt(ctx, fork)
	if err != nil {
		return err
	}
	if base.Workspace != nil && base.Workspace.Workspace != tx.Workspace.ID() { // keep turns from beginning or ending
		unlock, err := tx.Spool.Lock(ctx, base.Workspace.Workspace)
		if err != nil {
			return err
		}
		defer unlock()
		if err := tx.loadTurns(ctx); err != nil {
			return err
		}
	}
	if again {
		return tx.forkAgain(ctx, op, fork, base)
	}
	if err := tx.refuseOwn(ctx, op, fork, base); err != nil {
		return err
	}
	// If the process ends after this, the next undo of the fork completes the deletion.
	if err := tx.Store.Delete(ctx, fork.Forked); err != nil && segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	source, err := tx.Store.Head(ctx, fork.Thread)
	if err != nil {
		return err
	}
	c := newCommit(source)
	c.Operation = tx.undoOf(op, fork)
	if c.Workspace, err = tx.withoutThread(ctx, fork.Forked, base); err != nil {
		return err
	}
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return fmt.Errorf("commit op undo: %w", err)
	}
	return nil
}

// undoOf returns the operation that undoes op, which refers to a fork.
func (tx *txn) undoOf(op, fork segno.Operation) *segno.Operation {
	return &segno.Operation{ID: segno.OperationID(segno.NewID()), Workspace: fork.Workspace, Thread: fork.Thread, Verb: segno.VerbOpUndo,
		Args: shortID(op.ID), Time: tx.Now(), Before: op.After, After: op.Before, Undoes: op.ID, Forked: fork.Forked}
}

// forkedAt returns the first checkpoint of a fork.
func (tx *txn) forkedAt(ctx context.Context, fork segno.Operation) (*segno.Checkpoint, error) {
	base, err := tx.checkpoint(ctx, baseID(fork.Forked))
	if segno.KindOf(err) == segno.KindNotFound {
		err = refuseUndo(fork, "its first checkpoint was collected").WithHint("run 'segno fork' again")
	}
	return base, err
}

// withoutThread returns the state of a fork's directory without the fork's thread. It is nil if
// another thread works there.
func (tx *txn) withoutThread(ctx context.Context, thread segno.ThreadID, base *segno.Checkpoint) (*segno.WorkspaceState, error) {
	ws, ok := tx.Store.(segno.Workspaces)
	if !ok || base.Workspace == nil {
		return nil, nil
	}
	rec, err := ws.Workspace(ctx, base.Workspace.Workspace)
	if err != nil || rec.State.Thread != thread {
		return nil, err
	}
	state := rec.State
	state.Thread = ""
	return &state, nil
}

// refuseOwn returns an error if a fork has more than its first checkpoint, because undoing the fork
// would lose that.
func (tx *txn) refuseOwn(ctx context.Context, op, fork segno.Operation, base *segno.Checkpoint) error {
	own, err := tx.ownOfFork(ctx, fork, base)
	if err != nil || own == "" {
		return err
	}
	return refuseUndo(op, "the fork has %s; it is kept", own).
		WithHint("run 'segno delete " + string(fork.Forked) + "' to delete its thread, or undo an older operation by its id")
}

// ownOfFork describes what a fork has in addition to its first checkpoint, or returns "".
func (tx *txn) ownOfFork(ctx context.Context, fork segno.Operation, base *segno.Checkpoint) (string, error) {
	thread := fork.Forked
	head, err := tx.Store.Head(ctx, thread)
	if segno.KindOf(err) == segno.KindNotFound {
		return "", nil // the thread was deleted
	}
	if err != nil {
		return "", err
	}
	isOpen := func(t OpenTurn) bool {
		return t.Thread == thread || head.Link.Session != "" && t.Source.Session == head.Link.Session
	}
	if slices.ContainsFunc(tx.turns, isOpen) {
		return "an open turn", nil
	}
	if own, err := tx.commitsOfFork(ctx, head, base); err != nil || own != "" {
		return own, err
	}
	if base.Workspace != nil {
		plan, err := tx.Spool.ReadPlan(ctx, base.Workspace.Workspace)
		if err != nil || plan != nil {
			return "an interrupted move", err
		}
	}
	return tx.usesOfFork(ctx, thread, base)
}

// commitsOfFork is ownOfFork for what the thread of the fork has committed.
func (tx *txn) commitsOfFork(ctx context.Context, head segno.Head, base *segno.Checkpoint) (string, error) {
	own := 0
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: head.Thread}) {
		if err != nil {
			return "", err
		}
		if c.ID != base.ID {
			own++
		}
	}
	switch {
	case own > 0:
		return count(own, "checkpoint") + " of its own", nil
	case head.Head != base.ID || head.Tip != base.ID:
		return "moves or entries of its own", nil
	}
	return "", nil
}

// usesOfFork is ownOfFork for what refers to the thread of the fork, or holds its lease.
func (tx *txn) usesOfFork(ctx context.Context, thread segno.ThreadID, base *segno.Checkpoint) (string, error) {
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return "", err
		}
		if c.Thread == thread {
			return "a pin", nil
		}
	}
	for _, err := range tx.Store.Threads(ctx, segno.ThreadQuery{ParentThread: thread, Limit: 1}) {
		return "threads that are parts of it", err
	}
	for t, err := range tx.Store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			return "", err
		}
		if t.Parent == base.ID {
			return "a fork", nil
		}
	}
	if leaser, ok := tx.Store.(segno.Leaser); ok {
		l, err := leaser.LeaseOf(ctx, thread)
		if err != nil {
			return "", err
		}
		if l.Owner != "" {
			return "a run in progress", nil
		}
	}
	return "", nil
}

// forkAgain makes a new thread for a fork that was undone, at the same checkpoint and for the same
// directory, with a new session that ends there.
func (tx *txn) forkAgain(ctx context.Context, op, fork segno.Operation, base *segno.Checkpoint) error {
	x, err := tx.checkpoint(ctx, fork.Before.Head)
	if err != nil {
		return err
	}
	f := &ForkResult{From: x, Thread: segno.ThreadID(segno.NewID()), Report: segno.ForkReport{Root: tx.Workspace.Root(), How: "none"}}
	var ask MoveRequest
	takesDir := false // unless another thread works there now
	if base.Workspace != nil && base.Workspace.Workspace != tx.Workspace.ID() {
		ask.Dir, f.Report.Root = base.Workspace.Root, base.Workspace.Root
		works, err := tx.threadAt(ctx, base.Workspace.Workspace)
		if err != nil {
			return err
		}
		takesDir = works == ""
	}
	if err := tx.forkSession(ctx, ask, f); err != nil {
		return err
	}
	operation := tx.undoOf(op, fork)
	operation.Forked = f.Thread
	return tx.commitFork(ctx, ask, f, operation, takesDir)
}
