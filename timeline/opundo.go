package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// planOpUndo undoes an operation: pointers, files and conversation return to the state
// before it. Changes that the user made to the files since stay.
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

// planReverse undoes an operation from the present.
func (tx *txn) planReverse(ctx context.Context, op segno.Operation, ask MoveRequest, now currentState, p *Plan) error {
	back := tx.newReverter(&ask, now)
	if err := back.reverseOperation(ctx, &op); err != nil {
		return err
	}
	before, err := tx.checkpoint(ctx, op.Before.Head)
	if err != nil {
		return err
	}
	p.setTarget(before, op.Before.Tip)
	if op.Before.Session == op.After.Session {
		p.Session = nil // it did not move the conversation
	}
	p.Args, p.Undoes = shortID(op.ID)+ask.force(), op.ID
	return p.setSteps(ctx, back)
}

// refuseMovedSince refuses to undo an operation if the thread has newer turns, because that
// would undo the turns, too.
func (tx *txn) refuseMovedSince(ctx context.Context, op segno.Operation, now currentState) error {
	line, err := tx.line(ctx, now.head.Head)
	if err != nil {
		return err
	}
	for _, c := range line {
		if c.ID == op.After.Head {
			return nil
		}
		if c.Kind == segno.CheckpointTurn && c.Time.After(op.Time) {
			return refuseUndo(op, "turn t%d came after it", c.Turn).WithHint("use 'segno undo' first, or 'segno restore' to go where you want")
		}
	}
	return refuseUndo(op, "a newer operation moved the thread").WithHint("run 'segno op log' and undo the newer operations first")
}

// FindOperation returns one operation of the workspace's log. For "" it returns the newest
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

// UndoOperation undoes an operation that moved no files. A pin gets its previous name. The
// thread of a fork is deleted, unless it has new turns, and its directory stays.
func (tl *Timeline) UndoOperation(ctx context.Context, op segno.Operation) error {
	tx := tl.unlocked()
	if op.Pin != nil {
		return tx.unpinBack(ctx, op)
	}
	if op.Verb == segno.VerbOpUndo {
		return refuseUndo(op, "an undone fork cannot be restored").WithHint("run 'segno fork' again")
	}
	head, err := tx.Store.Head(ctx, op.Forked)
	if err != nil {
		return err
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: op.Forked}) {
		if err != nil {
			return err
		}
		if c.Kind == segno.CheckpointTurn {
			return refuseUndo(op, "the fork has new turns, the last is t%d", head.Turn)
		}
	}
	if err := tx.loadTurns(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(tx.turns, func(t OpenTurn) bool { return t.Thread == op.Forked }) {
		return refuseUndo(op, "a turn of the fork is open")
	}
	source, err := tx.Store.Head(ctx, op.Thread)
	if err != nil {
		return err
	}
	c := newCommit(source)
	c.Operation = &segno.Operation{ID: segno.OperationID(segno.NewID()), Workspace: op.Workspace, Thread: op.Thread, Verb: segno.VerbOpUndo,
		Args: shortID(op.ID), Time: tx.Now(), Before: op.After, After: op.Before, Undoes: op.ID, Forked: op.Forked}
	if err := tx.Store.Delete(ctx, op.Forked); err != nil {
		return err
	}
	_, err = tx.commitRetryingCAS(ctx, c)
	return err
}

func refuseUndo(op segno.Operation, format string, args ...any) *segno.Error {
	return segno.Errorf(segno.KindRefused, "op undo", string(op.ID), format, args...)
}

// shortID is the part of an id that users see.
func shortID(id segno.OperationID) string { return string(id[:min(len(id), 6)]) }
