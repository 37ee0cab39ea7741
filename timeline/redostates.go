package timeline

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/dalsegno/segno"
)

// redoTurns adds the changes of a redo. line begins at the checkpoint from which the redo starts, and ends at its target.
func (r *reverter) redoTurns(ctx context.Context, ask MoveRequest, p *Plan, line []*segno.Checkpoint) error {
	undone, err := r.lastWholeUndo(ctx, p, r.now)
	if err != nil {
		return err
	}
	if undone != nil {
		return r.reverseOperation(ctx, undone)
	}
	if !ask.Steps {
		now, next, err := r.statesOfUndo(ctx, p)
		if err == nil && next != nil {
			return r.reverse(ctx, now, next, nil, nil)
		}
		if err != nil && !errors.Is(err, segno.KindNotFound) { // a collection removed a state
			return err
		}
	}
	return r.redo(ctx, line)
}

// statesOfUndo finds the undo of several turns if the redo p redoes some of them. It returns the state to which that undo would have led
// if it had stopped at the turns that are undone now, and if it had stopped at those that are undone after the redo. The difference has
// only what the undo reverted: lines of a turn that the user had removed before the undo are in neither state. next is nil if
// there is no such undo, or if it moved a database.
func (tx *txn) statesOfUndo(ctx context.Context, p *Plan) (now, next *segno.Snapshot, err error) {
	const most = 64 // the number of operations to examine, newest first
	seen := 0
	undone := map[segno.OperationID]bool{}
	at := p.Before.Head
	for op, err := range tx.operations(ctx) {
		if seen++; err != nil || seen > most {
			return nil, nil, err
		}
		if op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
			continue
		}
		if op.Thread != p.Thread || !op.MovesFiles() || undone[op.ID] {
			continue
		}
		turns, failed := strconv.Atoi(op.Args)
		if since, err := tx.isOnlySaves(ctx, op.After.Head, at); err != nil || !since || failed != nil {
			return nil, nil, err
		}
		if at = op.Before.Head; op.Verb == segno.VerbRedo {
			continue
		}
		legs, from, err := tx.legsOfUndo(ctx, &op, turns, p.Turns)
		if err != nil || legs == nil {
			return nil, nil, err
		}
		if from >= 0 {
			return tx.statesBetween(ctx, &op, legs, from+1, from+1-len(p.Turns))
		}
	}
	return nil, nil, nil
}

// legsOfUndo returns the turns that an undo moved over, newest first, and the index of the oldest turn of a redo among them. The index is
// -1 if the undo did not move over that turn. legs is nil if the undo was another move, if it moved over a part of the redone turns only, or if a move of files is between the turns.
func (tx *txn) legsOfUndo(ctx context.Context, op *segno.Operation, turns int, redone []int) (legs []leg, from int, err error) {
	line, err := tx.line(ctx, op.Before.Head)
	if err != nil {
		return nil, 0, err
	}
	after, err := tx.checkpoint(ctx, op.After.Head)
	if err != nil {
		return nil, 0, err
	}
	legs = undoLegs(line, MoveRequest{})
	if op.Verb != segno.VerbUndo || turns < 1 || turns > len(legs) {
		return nil, 0, nil
	}
	to := legs[turns-1].below[0].ID
	isMove := func(c *segno.Checkpoint) bool { return c.Kind == segno.CheckpointRestore }
	isThere := after.ID == to || after.Parent == to && after.Kind == segno.CheckpointExternal
	if !isThere || slices.ContainsFunc(line[:len(line)-len(legs[turns-1].below)], isMove) {
		return nil, 0, nil // it counted steps, or a redo makes moves of files again
	}
	legs = legs[:turns]
	from = slices.IndexFunc(legs, func(l leg) bool { return l.turn == redone[0] })
	for i, turn := range redone {
		if from >= 0 && (from < i || legs[from-i].turn != turn) {
			return nil, 0, nil
		}
	}
	return legs, from, nil
}

// statesBetween plans an undo again from the state with which it began, and returns the states in which many and few of its turns are
// undone. Paths that the undo did not write because of conflicts stay in both.
func (tx *txn) statesBetween(ctx context.Context, op *segno.Operation, legs []leg, many, few int) (low, high *segno.Snapshot, err error) {
	before, err := tx.operationState(ctx, op.Before)
	if err != nil {
		return nil, nil, err
	}
	changes, err := tx.changesOf(ctx, op)
	if err != nil {
		return nil, nil, err
	}
	back := tx.newReverter(&MoveRequest{}, currentState{snap: *before})
	var at [2][]segno.Change
	for i, l := range legs {
		if i == few {
			at[0] = back.planned()
		}
		if err := back.reverseTurn(ctx, l); err != nil {
			return nil, nil, err
		}
		if i+1 == many {
			at[1] = back.planned()
		}
	}
	for name := range back.files {
		if _, isDatabase := segno.DatabaseName(name); isDatabase {
			return nil, nil, nil // no state with changes contains databases
		}
	}
	wrote := entities(changes)
	var states [2]segno.Snapshot
	for i, plan := range at {
		plan = slices.DeleteFunc(plan, func(c segno.Change) bool {
			f := back.files[c.Path]
			_, written := wrote[c.Path]
			return c.From == c.To || f.conflict != "" || !written && f.want != f.present
		})
		if err := back.stageMerged(ctx, plan); err != nil {
			return nil, nil, err
		}
		state, staged, err := tx.withChanges(ctx, *before, *before, plan)
		if err == nil {
			err = tx.keepStaged(ctx, staged)
		}
		if err != nil {
			return nil, nil, err
		}
		states[i] = state
	}
	return &states[1], &states[0], nil
}
