package segno

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// forced marks the Args of an operation that was made with [Ask.Force].
const forced = " --force"

// leftover is what a move left as conflicts.
type leftover struct {
	op        Operation
	plan      *Plan // the move again, as it was planned then
	conflicts []Conflict
}

// Left returns the conflicts of the thread's newest move that still differ from what
// the move would have written, each with what is at its path now.
func (m *Mover) Left(ctx context.Context, thread ThreadID) ([]Conflict, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := m.look(ctx, Ask{Verb: "diff", Thread: thread, Force: true})
	if err != nil {
		return nil, err
	}
	left, err := m.left(ctx, now)
	if err != nil || left == nil {
		return nil, err
	}
	return left.conflicts, m.keep(ctx, now.staged)
}

// finishLast plans to overwrite what the newest move left as conflicts, if ask forces
// the same verb. A user who reads of conflicts repeats the command with --force: that
// must not move a further turn. It returns false if there is nothing to finish.
func (m *Mover) finishLast(ctx context.Context, ask Ask, now present, p *Plan) (bool, error) {
	if !ask.Force || ask.Op != "" {
		return false, nil
	}
	left, err := m.left(ctx, now)
	if err != nil || left == nil || len(left.conflicts) == 0 || left.op.Verb != ask.Verb {
		return false, err
	}
	if ask.Turns > 1 && fmt.Sprint(ask.Turns) != left.op.Args {
		return false, nil
	}
	landing, err := m.checkpoint(ctx, left.plan.Landing)
	if err != nil {
		return false, err
	}
	p.landOn(landing, now.head.Tip)
	p.Session = nil // the conversation has moved already
	p.Turns, p.Args, p.Finishes, p.Undoes = left.plan.Turns, left.op.Args+forced, left.op.ID, ""
	changes := make([]Change, len(left.conflicts))
	for i, c := range left.conflicts {
		changes[i] = Change{Path: c.Path, From: c.Now, To: c.Want}
	}
	p.split(changes)
	return true, nil
}

// left returns what the thread's newest move left, or nil if the thread has moved on
// since, or if there is no such move. The operation log has no conflicts: the move
// is planned again from the state that it began with.
func (m *Mover) left(ctx context.Context, now present) (*leftover, error) {
	log, ok := m.Store.(Workspaces)
	if !ok {
		return nil, nil
	}
	undone := map[OperationID]bool{}
	for op, err := range log.Operations(ctx, m.Workspace.ID()) {
		if err != nil {
			return nil, err
		}
		if op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
		}
		if op.Thread != now.head.Thread || !op.MovesFiles() || undone[op.ID] {
			continue
		}
		if since, err := m.onlySaved(ctx, op.After.Head, now.head.Head); err != nil || !since {
			return nil, err
		}
		left, err := m.leftBy(ctx, op, now)
		if err != nil || op.Verb != VerbOpUndo || len(left.conflicts) > 0 {
			return left, err
		}
	}
	return nil, nil
}

// onlySaved reports whether nothing but the user's own changes was recorded between
// two checkpoints of a line.
func (m *Mover) onlySaved(ctx context.Context, from, to CommitID) (bool, error) {
	line, err := m.line(ctx, to)
	if err != nil {
		return false, err
	}
	for _, c := range line {
		if c.ID == from {
			return true, nil
		}
		if c.Kind != KindExternal && c.Kind != KindSave {
			return false, nil
		}
	}
	return false, nil
}

// leftBy plans a move again and returns the conflicts that are not settled.
func (m *Mover) leftBy(ctx context.Context, op Operation, now present) (*leftover, error) {
	left := &leftover{op: op, plan: new(Plan)}
	then := present{head: now.head, snap: Snapshot{Tree: op.Before.Tree}}
	then.head.Head, then.head.Tip = op.Before.Head, op.Before.Tip
	turns, err := strconv.Atoi(op.Args)
	ask := Ask{Verb: op.Verb, Turns: turns}
	switch {
	case strings.HasSuffix(op.Args, forced):
		return left, nil
	case op.Verb == VerbUndo && err == nil:
		err = m.planUndo(ctx, ask, then, left.plan)
	case op.Verb == VerbRedo && err == nil:
		err = m.planRedo(ctx, ask, then, left.plan)
	case op.Verb == VerbOpUndo:
		var undone Operation
		if undone, err = m.operationByID(ctx, op.Undoes); err == nil {
			err = m.planBack(ctx, undone, ask, then, left.plan)
		}
	default:
		return left, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := m.Workspace.Diff(ctx, op.Before.Tree, op.After.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	since, err := m.Workspace.Diff(ctx, op.Before.Tree, now.snap.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	settled, changed := entities(after), entities(since)
	for _, c := range left.plan.Conflicts {
		if e, ok := settled[c.Path]; ok && e == c.Want {
			continue
		}
		if e, ok := changed[c.Path]; ok {
			c.Now = e
		}
		if c.Now != c.Want {
			left.conflicts = append(left.conflicts, c)
		}
	}
	return left, nil
}

// operationByID returns one operation of the workspace's log.
func (m *Mover) operationByID(ctx context.Context, id OperationID) (Operation, error) {
	if log, ok := m.Store.(Workspaces); ok {
		for op, err := range log.Operations(ctx, m.Workspace.ID()) {
			if err != nil || op.ID == id {
				return op, err
			}
		}
	}
	return Operation{}, &Error{Op: "find operation", Name: string(id), Kind: KindNotFound}
}
