package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// planUndo undoes the newest turns of the head's line, newest first, or some turns of the line alone.
func (tx *txn) planUndo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	if tx.Workspace == nil && ask.isInPlace() {
		return segno.Errorf(segno.KindRefused, "undo", string(now.head.Thread), "the files of the thread are not here").
			WithHint("run the command on the machine with the workspace")
	}
	line, err := tx.line(ctx, now.head.Head)
	if err != nil {
		return err
	}
	legs := undoLegs(line, ask)
	if len(ask.Only) > 0 {
		legs, err = tx.onlyLegs(ctx, legs, ask, now)
	} else if tx.Workspace == nil {
		legs = withOpenTurn(legs, line, now.head.Head, ask)
	}
	if err != nil {
		return err
	}
	back := tx.newReverter(&ask, now)
	for i := 0; i < len(legs) && !ask.reached(p.Turns); i++ {
		if tx.Workspace != nil {
			if err := back.reverseTurn(ctx, legs[i]); err != nil {
				return err
			}
		}
		p.Turns = append(p.Turns, legs[i].turn)
		p.setTarget(legs[i].below[0], now.head.Tip)
	}
	if err := ask.checkReached(p.Turns); err != nil {
		return err
	}
	p.Args = fmt.Sprint(len(p.Turns)) + ask.force()
	if len(legs[0].parts) > 0 {
		p.Prompt = legs[0].parts[0].Prompt
	}
	switch {
	case tx.Workspace == nil:
		return nil
	case ask.isInPlace():
		return tx.undoInPlace(ctx, ask, now, p, back)
	}
	return p.setSteps(ctx, back)
}

// reached reports whether an undo or redo has passed all requested turns.
func (a *MoveRequest) reached(turns []int) bool {
	if len(a.Only) > 0 {
		return len(turns) == len(a.Only)
	}
	if a.Turn > 0 {
		return slices.Contains(turns, a.Turn)
	}
	return len(turns) == a.Turns
}

// checkReached returns an error if an undo or redo could not pass all requested turns.
func (a *MoveRequest) checkReached(turns []int) error {
	unit := "turn"
	if a.Steps {
		unit = "checkpoint"
	}
	lines := "run 'segno log' to see all lines; 'segno restore' goes to any of them"
	verb, missing, few := string(a.Verb), "turn t%d is not on the line of the thread", "the line has %s, not %d"
	if a.Verb == segno.VerbRedo {
		missing, few = "turn t%d was not undone", "only %s can be redone, not %d"
	}
	switch {
	case a.reached(turns) && len(turns) > 0:
		return nil
	case a.Turn > 0 && (len(turns) > 0 || a.Verb == segno.VerbUndo):
		return segno.Errorf(segno.KindNotFound, verb, "", missing, a.Turn).WithHint(lines)
	case len(turns) > 0:
		return segno.Errorf(segno.KindNotFound, verb, "", few, count(len(turns), unit), a.Turns).
			WithHint(fmt.Sprintf("run 'segno %s %d'", verb, len(turns)))
	case a.Verb == segno.VerbRedo:
		return segno.Errorf(segno.KindNotFound, verb, "", "nothing to redo").WithHint(lines)
	}
	return segno.Errorf(segno.KindNotFound, verb, "", "no %s to undo", unit).WithHint("run 'segno log' to see where the thread is")
}

// reverseTurn adds the changes that revert a turn. Changes that others made while the turn waited
// stay.
func (r *reverter) reverseTurn(ctx context.Context, l leg) error {
	left := l.parts[0].Workspace
	if !hasTree(left) && l.parts[0].Kind == segno.CheckpointStep {
		left = &r.now.snap // the turn's run was killed and left the current state
	}
	for i, c := range l.parts {
		if c.Kind != segno.CheckpointExternal {
			continue
		}
		if err := r.reverse(ctx, left, c.Workspace, l.parts[0], nil); err != nil {
			return err
		}
		left = newestState(slices.Concat(l.parts[i+1:], l.below))
	}
	return r.reverse(ctx, left, newestState(l.below), l.parts[0], nil)
}

// planRedo redoes the oldest turns between head and tip, oldest first.
func (tx *txn) planRedo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	line, err := tx.redoLine(ctx, now.head)
	if err != nil {
		return err
	}
	above := tx.Workspace == nil && now.head.Head != now.head.Tip && line[len(line)-1].ID != now.head.Tip
	target := 0 // the index in line of the checkpoint to which redo moves
	for _, l := range redoLegs(line, above, ask) {
		if ask.reached(p.Turns) {
			break
		}
		target = min(l.to, len(line)-1)
		p.Turns = append(p.Turns, l.turn)
		p.setTarget(line[target], now.head.Tip)
		if l.to == len(line) {
			p.Target = now.head.Tip
		}
	}
	if err := ask.checkReached(p.Turns); err != nil {
		return err
	}
	p.Args = fmt.Sprint(len(p.Turns)) + ask.force()
	if tx.Workspace == nil {
		return nil
	}
	if i := slices.IndexFunc(line[1:], func(c *segno.Checkpoint) bool { return endsTurn(c) && c.Turn == p.Turns[0] }); i >= 0 {
		p.Prompt = line[1+i].Prompt
	}
	again := tx.newReverter(&ask, now)
	if err := again.redoTurns(ctx, line, target); err != nil {
		return err
	}
	return p.setSteps(ctx, again)
}

// redo is redoTurns if the log of operations does not show what was reverted, or if a database moved with a part of the turns. It adds
// the changes of the turns on a line, oldest first, after its first checkpoint, and those of
// moves that left a checkpoint there, such as the undo of one turn alone. It adds only what other moves of
// the thread reverted. If a change is gone and no move reverted it, another author reverted it before the
// undo, and redo does not restore it. For a turn that never was in this directory, it adds all changes.
func (r *reverter) redo(ctx context.Context, line []*segno.Checkpoint) error {
	moved, err := r.movesSince(ctx, line[min(1, len(line)-1)])
	if err != nil {
		return err
	}
	left, err := r.leftBy(ctx, moved)
	if err != nil {
		return err
	}
	before, err := r.stateAt(ctx, line[0].ID)
	if err != nil {
		return err
	}
	for _, c := range line[1:] {
		if !hasTree(c.Workspace) {
			continue
		}
		isNew := left != nil && !left[c.ID]
		isMove := c.Kind == segno.CheckpointRestore && (isNew || slices.ContainsFunc(moved, func(m movedPaths) bool { return m.head == c.ID }))
		if endsTurn(c) || isMove {
			wrote := func(path string) bool {
				if isNew {
					return true
				}
				if f := r.files[path]; isMove && f != nil && f.reverted {
					return true // the redo of what the move reverted
				}
				return slices.ContainsFunc(moved, func(m movedPaths) bool { return m.head != c.ID && m.isSince(c) && m.has(path) })
			}
			if err := r.reverse(ctx, before, c.Workspace, nil, wrote); err != nil {
				return err
			}
		}
		before = c.Workspace
	}
	return nil
}

// redoLine returns the checkpoints from the newest common ancestor of head and tip up to the tip,
// oldest first.
func (tx *txn) redoLine(ctx context.Context, head segno.Head) ([]*segno.Checkpoint, error) {
	line, err := tx.line(ctx, head.Head)
	if err != nil {
		return nil, err
	}
	below := map[segno.CommitID]bool{}
	for _, c := range line {
		below[c.ID] = true
	}
	up, err := tx.line(ctx, head.Tip)
	if i := slices.IndexFunc(up, func(c *segno.Checkpoint) bool { return below[c.ID] }); i >= 0 {
		up = up[:i+1]
	}
	slices.Reverse(up)
	return up, err
}
