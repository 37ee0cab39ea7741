package timeline

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
)

// planOpUndo plans to undo an operation: pointers, files and conversation return to their state
// before it. Changes that the user made to the files since then stay.
func (tx *txn) planOpUndo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	op, err := tx.FindOperation(ctx, ask.Op)
	if err != nil {
		return err
	}
	if op.Thread != now.head.Thread {
		return refuseUndo(op, "it moved another thread").WithHint("use --thread " + string(op.Thread))
	}
	if err := tx.refuseMovedSince(ctx, op, now); err != nil {
		return err
	}
	return tx.planReverse(ctx, op, ask, now, p)
}

// planReverse plans to undo an operation, starting from the current state.
func (tx *txn) planReverse(ctx context.Context, op segno.Operation, ask MoveRequest, now currentState, p *Plan) error {
	back := tx.newReverter(&ask, now)
	if err := back.reverseMove(ctx, &op); err != nil {
		return err
	}
	before, err := tx.checkpoint(ctx, op.Before.Head)
	if err != nil {
		return err
	}
	p.setTarget(before, op.Before.Tip)
	if op.Before.Session == op.After.Session && op.After.Session == now.head.Link.Session {
		after, err := tx.checkpoint(ctx, op.After.Head)
		if err != nil {
			return err
		}
		// Neither the operation nor a later one moved the conversation. If the operation began before the first prompt, no session ends
		// there, and the move reports that.
		if hasConversation(before) || !hasConversation(after) {
			p.Session = nil
		}
	}
	p.Args, p.Undoes = shortID(op.ID)+ask.force(), op.ID
	return p.setSteps(ctx, back)
}

// hasConversation reports whether the session of a checkpoint had a prompt.
func hasConversation(c *segno.Checkpoint) bool { return c.Session != nil && c.Session.Leaf != "" }

// refuseMovedSince returns an error if the thread has newer turns than the operation, because
// undoing the operation would undo those turns, too.
func (tx *txn) refuseMovedSince(ctx context.Context, op segno.Operation, now currentState) error {
	line, err := tx.line(ctx, now.head.Head)
	if err != nil {
		return err
	}
	isLast, err := tx.isLastMove(ctx, op)
	if err != nil {
		return err
	}
	for _, c := range line {
		if c.ID == op.After.Head {
			return nil
		}
		// Without a later move, every turn above the operation is newer, also if the clock stepped back. A later move may have
		// returned to an older turn.
		if c.Kind == segno.CheckpointTurn && (isLast || c.Time.After(op.Time)) {
			return refuseUndo(op, "turn t%d came after it", c.Turn).WithHint("use 'segno undo' first, or 'segno restore' to go where you want")
		}
	}
	return refuseUndo(op, "a newer operation moved the thread").WithHint("run 'segno op log' and undo the newer operations first")
}

// isLastMove reports whether no operation in effect has moved the thread of op since op. The log is in the order in which the
// operations were made.
func (tx *txn) isLastMove(ctx context.Context, op segno.Operation) (bool, error) {
	undone := map[segno.OperationID]bool{} // operations that a later one in effect undid
	for x, err := range tx.operations(ctx) {
		switch {
		case err != nil:
			return false, err
		case x.ID == op.ID:
			return len(undone) == 0, nil // otherwise an operation before op was undone
		case x.Thread != op.Thread || !x.MovesFiles():
		case undone[x.ID]:
			delete(undone, x.ID)
		case x.Undoes != "":
			undone[x.Undoes] = true
		default:
			return false, nil
		}
	}
	return false, nil
}

// FindOperation returns one operation of the workspace's log. If id is "", it returns the newest
// one in effect: not undone, and not itself an op undo.
func (tl *Timeline) FindOperation(ctx context.Context, id segno.OperationID) (segno.Operation, error) {
	undone := map[segno.OperationID]bool{}
	for op, err := range tl.unlocked().operations(ctx) {
		if err != nil {
			return op, err
		}
		switch {
		case id != "" && op.ID == id && undone[id]:
			return op, refuseUndo(op, "it is undone already").WithHint("run 'segno op log'; the op undo itself can be undone")
		case id != "" && op.ID == id:
			return op, nil
		case op.Undoes != "":
			undone[op.Undoes] = !undone[op.ID]
		case id == "" && !undone[op.ID]:
			return op, nil
		}
	}
	return segno.Operation{}, segno.Errorf(segno.KindNotFound, "op undo", string(id), "no operation to undo").WithHint("run 'segno op log'")
}

// UndoOperation undoes an operation that moved no files: a pin, a fork, or the undo of one of them.
func (tl *Timeline) UndoOperation(ctx context.Context, op segno.Operation) error {
	if op.Pin != nil {
		return tl.unpinBack(ctx, op)
	}
	return tl.undoFork(ctx, op)
}

// RefuseUndo returns the error with which [Timeline.UndoOperation] would refuse to undo an operation now, or nil. It changes
// nothing.
func (tl *Timeline) RefuseUndo(ctx context.Context, op segno.Operation) error {
	tx := tl.unlocked()
	if op.Pin != nil {
		return tx.refuseUnpinBack(ctx, op)
	}
	fork, again, err := tx.forkOf(ctx, op)
	if err != nil {
		return err
	}
	base, err := tx.forkedAt(ctx, fork)
	if err != nil || again {
		return err
	}
	if err := tx.loadTurns(ctx); err != nil {
		return err
	}
	return tx.refuseOwn(ctx, op, fork, base)
}

func refuseUndo(op segno.Operation, format string, args ...any) *segno.Error {
	return segno.Errorf(segno.KindRefused, "op undo", string(op.ID), format, args...)
}

// shortID is the part of an id that users see.
func shortID(id segno.OperationID) string { return string(id[:min(len(id), 6)]) }

// operations yields the operations on the workspace, newest first.
func (tx *txn) operations(ctx context.Context) iter.Seq2[segno.Operation, error] {
	if log, ok := tx.Store.(segno.Workspaces); ok {
		return log.Operations(ctx, tx.Workspace.ID())
	}
	return func(func(segno.Operation, error) bool) {}
}

// operationsUntil yields the operations that were made before one of them, newest first, or all if the id is "".
func (tx *txn) operationsUntil(ctx context.Context, until segno.OperationID) iter.Seq2[segno.Operation, error] {
	return func(yield func(segno.Operation, error) bool) {
		isBefore := until == ""
		for op, err := range tx.operations(ctx) {
			if (isBefore || err != nil) && !yield(op, err) {
				return
			}
			isBefore = isBefore || op.ID == until
		}
	}
}
