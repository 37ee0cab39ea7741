package timeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// forced marks the Args of an operation that was made with [Ask.Force].
const forced = " --force"

// remainder is what a move left as conflicts: the move as it was planned, with those of
// its conflicts that are not settled.
type remainder struct {
	op   segno.Operation
	plan *Plan
}

// Remaining returns the thread's newest move as it was planned. Its Conflicts and Forced
// are those that still differ from what the move would have written. The plan is nil
// if the thread moved on since.
func (tl *Timeline) Remaining(ctx context.Context, thread segno.ThreadID) (*Plan, error) {
	tx, err := tl.lockForMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	now, err := tx.readCurrent(ctx, MoveRequest{Verb: "diff", Thread: thread, Force: true})
	if err != nil {
		return nil, err
	}
	left, err := tx.remaining(ctx, now)
	if err != nil || left == nil {
		return nil, err
	}
	return left.plan, tx.keepStaged(ctx, now.staged)
}

// finishLast plans to overwrite what the newest move left as conflicts, if ask forces
// the same verb. After conflicts a user repeats the command with --force: that
// must not move a further turn. It returns false if there is nothing to finish.
func (tx *txn) finishLast(ctx context.Context, ask MoveRequest, now currentState, p *Plan) (bool, error) {
	if !ask.Force || ask.Op != "" || tx.Workspace == nil {
		return false, nil
	}
	left, err := tx.remaining(ctx, now)
	if err != nil || left == nil || len(left.plan.Forced) == 0 || left.op.Verb != ask.Verb {
		return false, err
	}
	last := left.plan.Turns[max(0, len(left.plan.Turns)-1):]
	if ask.Turns > 1 && fmt.Sprint(ask.Turns) != left.op.Args || ask.Turn > 0 && !slices.Contains(last, ask.Turn) || len(ask.Paths) > 0 {
		return false, nil
	}
	landing, err := tx.checkpoint(ctx, left.plan.Landing)
	if err != nil {
		return false, err
	}
	p.setLanding(landing, now.head.Tip)
	p.Session = nil // the conversation has moved already
	p.Turns, p.Args, p.Finishes, p.Undoes = left.plan.Turns, left.op.Args+forced, left.op.ID, ""
	p.split(left.plan.Forced)
	return true, nil
}

// remaining returns what the thread's newest move left, or nil if the thread has moved on
// since, or if there is no such move. The operation log has no conflicts: the move
// is planned again from the state that it began with.
func (tx *txn) remaining(ctx context.Context, now currentState) (*remainder, error) {
	log, ok := tx.Store.(segno.Workspaces)
	if !ok {
		return nil, nil
	}
	undone := map[segno.OperationID]bool{}
	for op, err := range log.Operations(ctx, tx.Workspace.ID()) {
		if err != nil {
			return nil, err
		}
		if op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
		}
		if op.Thread != now.head.Thread || !op.MovesFiles() || undone[op.ID] {
			continue
		}
		if since, err := tx.isOnlySaves(ctx, op.After.Head, now.head.Head); err != nil || !since {
			return nil, err
		}
		left, err := tx.remainingOf(ctx, op, now)
		if err != nil || op.Verb != segno.VerbOpUndo || len(left.plan.Forced) > 0 {
			return left, err
		}
	}
	return nil, nil
}

// lastWholeUndo returns the operation that undid that many turns in one undo, if only the
// user's own changes were recorded since, or else nil. A redo of these turns reverts the
// changes of that undo. Redoing the turns one by one would also restore lines of a turn that
// the user had removed before the undo.
func (tx *txn) lastWholeUndo(ctx context.Context, turns int, now currentState) (*segno.Operation, error) {
	log, ok := tx.Store.(segno.Workspaces)
	if !ok {
		return nil, nil
	}
	const most = 64 // operations to look at, newest first
	seen := 0
	for op, err := range log.Operations(ctx, tx.Workspace.ID()) {
		if err != nil {
			return nil, err
		}
		if seen++; seen > most {
			break
		}
		if op.Thread != now.head.Thread || op.Verb != segno.VerbUndo || op.Args != strconv.Itoa(turns) || op.Before.Tree.IsZero() || op.After.Tree.IsZero() {
			continue
		}
		if since, err := tx.isOnlySaves(ctx, op.After.Head, now.head.Head); err != nil || since {
			return &op, err
		}
	}
	return nil, nil
}

// isOnlySaves reports whether nothing but the user's own changes was recorded between
// two checkpoints of a line.
func (tx *txn) isOnlySaves(ctx context.Context, from, to segno.CommitID) (bool, error) {
	line, err := tx.line(ctx, to)
	if err != nil {
		return false, err
	}
	for _, c := range line {
		if c.ID == from {
			return true, nil
		}
		if c.Kind != segno.CheckpointExternal && c.Kind != segno.CheckpointSave {
			return false, nil
		}
	}
	return false, nil
}

// remainingOf plans a move again and returns the conflicts that are not settled. Of a move that
// was limited to paths it returns only the verb and the arguments.
func (tx *txn) remainingOf(ctx context.Context, op segno.Operation, now currentState) (*remainder, error) {
	left := &remainder{op: op, plan: &Plan{Verb: op.Verb, Args: op.Args}}
	then := currentState{head: now.head, snap: segno.Snapshot{Tree: op.Before.Tree}}
	then.head.Head, then.head.Tip = op.Before.Head, op.Before.Tip
	turns, err := strconv.Atoi(op.Args)
	ask := MoveRequest{Verb: op.Verb, Turns: turns}
	switch {
	case strings.HasSuffix(op.Args, forced):
		return left, nil
	case op.Verb == segno.VerbUndo && err == nil:
		err = tx.planUndo(ctx, ask, then, left.plan)
	case op.Verb == segno.VerbRedo && err == nil:
		err = tx.planRedo(ctx, ask, then, left.plan)
	case op.Verb == segno.VerbOpUndo:
		var undone segno.Operation
		if undone, err = tx.operationByID(ctx, op.Undoes); err == nil {
			err = tx.planReverse(ctx, undone, ask, then, left.plan)
		}
	default:
		return left, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := tx.Workspace.Diff(ctx, op.Before.Tree, op.After.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	since, err := tx.Workspace.Diff(ctx, op.Before.Tree, now.snap.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	left.plan.dropSettled(entities(after), entities(since))
	return left, nil
}

// dropSettled drops the conflicts that the move wrote all the same, or that are as it would
// have written them by now. after is what changed from the plan's present to the end
// of its move, and since what did until now.
func (p *Plan) dropSettled(after, since map[string]segno.Entity) {
	open := map[string]bool{}
	changes := p.Forced
	p.Forced = nil
	for _, c := range changes {
		if e, ok := after[c.Path]; ok && e == c.To {
			continue
		}
		if e, ok := since[c.Path]; ok {
			c.From = e
		}
		if c.From != c.To {
			open[c.Path] = true
			p.Forced = append(p.Forced, c)
		}
	}
	p.Conflicts = slices.DeleteFunc(p.Conflicts, func(c segno.Conflict) bool { return !open[c.Path] })
}

// operationByID returns one operation of the workspace's log.
func (tx *txn) operationByID(ctx context.Context, id segno.OperationID) (segno.Operation, error) {
	if log, ok := tx.Store.(segno.Workspaces); ok {
		for op, err := range log.Operations(ctx, tx.Workspace.ID()) {
			if err != nil || op.ID == id {
				return op, err
			}
		}
	}
	return segno.Operation{}, segno.NewError(segno.KindNotFound, "find operation", string(id), nil)
}
