package timeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// forced marks the Args of an operation that was made with [MoveRequest].Force.
const forced = " --force"

// Remaining returns the plan of the thread's newest move. Its Conflicts and Forced contain only
// the paths that still differ from the planned result. The plan is nil if the thread has moved
// since then.
func (tl *Timeline) Remaining(ctx context.Context, thread segno.ThreadID) (*Plan, error) {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	now, err := tx.readCurrent(ctx, MoveRequest{Verb: "diff", Thread: thread, WhileRunning: true})
	if err != nil {
		return nil, err
	}
	_, left, err := tx.remaining(ctx, now)
	if err != nil || left == nil {
		return nil, err
	}
	return left, tx.keepStaged(ctx, now.staged)
}

// finishLast plans to overwrite the conflicts that the newest move left, if ask forces the same
// verb. After conflicts, a user repeats the command with --force, and that must not move
// another turn. finishLast returns false if there is nothing to finish.
func (tx *txn) finishLast(ctx context.Context, ask MoveRequest, now currentState, p *Plan) (bool, error) {
	if !ask.Force || ask.Op != "" {
		return false, nil
	}
	op, left, err := tx.remaining(ctx, now)
	if err != nil || left == nil || len(left.Forced) == 0 || op.Verb != ask.Verb {
		return false, err
	}
	if !ask.repeats(op, left) {
		return false, nil
	}
	target, err := tx.checkpoint(ctx, left.Target)
	if err != nil {
		return false, err
	}
	p.setTarget(target, now.head.Tip)
	p.Git, p.Session = "", nil // the move has already warned about git, and the conversation has moved
	p.Turns, p.Args, p.Finishes, p.Undoes = left.Turns, strings.TrimSuffix(op.Args, forced)+forced, op.ID, ""
	if left.Only {
		p.Only, p.Times, p.gitThen = true, left.Times, nil
		p.Restore, p.Target, p.Tip, p.Label = true, now.head.Head, segno.Self, string(op.Verb)+" "+p.Args
	}
	p.split(left.Forced)
	return true, nil
}

// repeats reports whether a move that is asked for is the one that an operation made. left is the rest of
// the operation's plan.
func (a *MoveRequest) repeats(op *segno.Operation, left *Plan) bool {
	last := left.Turns[max(0, len(left.Turns)-1):]
	switch {
	case len(a.Paths) > 0 || a.Parts != nil || left.Only != (len(a.Only) > 0) || left.steps != a.Steps && !left.Only:
		return false
	case left.Only:
		return len(a.Only) == len(left.Turns) && !slices.ContainsFunc(a.Only, func(t int) bool { return !slices.Contains(left.Turns, t) })
	}
	return !(a.Turns > 1 && fmt.Sprint(a.Turns) != strings.TrimSuffix(op.Args, forced) || a.Turn > 0 && !slices.Contains(last, a.Turn))
}

// remaining returns the thread's newest move and the rest of its plan, or nil if there is no
// such move or the thread has moved since then. The operation log does not contain conflicts,
// so remaining plans the move again from the state with which it began.
func (tx *txn) remaining(ctx context.Context, now currentState) (*segno.Operation, *Plan, error) {
	undone := map[segno.OperationID]bool{}
	at := now.head.Head
	var wrote []segno.Change // by moves that overwrote conflicts of the one before them, oldest first
	for op, err := range tx.operations(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
		}
		if op.Thread != now.head.Thread || !op.MovesFiles() || undone[op.ID] {
			continue
		}
		if since, err := tx.isOnlySaves(ctx, op.After.Head, at); err != nil || !since {
			return nil, nil, err
		}
		finishes, err := tx.isFinish(ctx, &op)
		if err != nil {
			return nil, nil, err
		}
		if finishes {
			more, err := tx.changesOf(ctx, &op)
			if err != nil {
				return nil, nil, err
			}
			at, wrote = op.Before.Head, append(more, wrote...)
			continue
		}
		left, err := tx.remainingOf(ctx, op, now, wrote)
		if err != nil || op.Verb != segno.VerbOpUndo || len(left.Forced) > 0 {
			return &op, left, err
		}
	}
	return nil, nil, nil
}

// isFinish reports whether an undo or redo of whole turns overwrote the conflicts of the move before it. Such a move stays at its turn.
func (tx *txn) isFinish(ctx context.Context, op *segno.Operation) (bool, error) {
	if _, err := strconv.Atoi(strings.TrimSuffix(op.Args, forced)); err != nil || !strings.HasSuffix(op.Args, forced) {
		return false, nil
	}
	from, err := tx.checkpoint(ctx, op.Before.Head)
	if err != nil {
		return false, err
	}
	to, err := tx.checkpoint(ctx, op.After.Head)
	return err == nil && from.Turn == to.Turn, err
}

// lastWholeUndo returns the newest operation in effect that moved over the target of the redo p, if it is one undo of exactly the
// same turns or steps, and only the user's own changes were recorded since then. Otherwise it returns nil. A redo
// reverts the changes of that undo. Redoing the turns one by one would also restore lines of a
// turn that the user had removed before the undo.
func (tx *txn) lastWholeUndo(ctx context.Context, p *Plan, now currentState) (*segno.Operation, error) {
	const most = 64 // the number of operations to examine, newest first
	seen := 0
	undone := map[segno.OperationID]bool{}
	for op, err := range tx.operations(ctx) {
		if err != nil {
			return nil, err
		}
		if seen++; seen > most {
			break
		}
		if op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
		}
		switch {
		case op.Thread != now.head.Thread || !op.MovesFiles() || undone[op.ID]:
			continue
		case op.Verb == segno.VerbRestore, strings.HasSuffix(op.Args, forced):
			return nil, nil // it may have overwritten paths that an earlier undo left
		case op.Verb != segno.VerbUndo:
			continue
		}
		switch over, whole, err := tx.compareUndo(ctx, &op, p, now); {
		case err != nil, over && !whole:
			return nil, err
		case over:
			return &op, nil
		}
	}
	return nil, nil
}

// compareUndo compares an undo with the redo p. over reports whether the undo moved over the turn to which the redo moves, and whole
// whether it undid the same turns or steps, and only the user's own changes were recorded since then.
func (tx *txn) compareUndo(ctx context.Context, op *segno.Operation, p *Plan, now currentState) (over, whole bool, err error) {
	var at [3]*segno.Checkpoint
	for i, id := range []segno.CommitID{op.Before.Head, op.After.Head, p.Target} {
		at[i], err = tx.checkpoint(ctx, id)
		if segno.KindOf(err) == segno.KindNotFound {
			return true, false, nil // a collection removed it
		}
		if err != nil {
			return false, false, err
		}
	}
	from, to, target := at[0], at[1], at[2]
	if over = to.Turn <= target.Turn && target.Turn <= from.Turn; !over {
		return false, false, nil
	}
	if op.Args != strconv.Itoa(len(p.Turns)) || op.Before.Tree.IsZero() || op.After.Tree.IsZero() {
		return true, false, nil
	}
	undone, err := tx.newestWork(ctx, from.ID)
	if err != nil {
		return true, false, err
	}
	redone, err := tx.newestWork(ctx, target.ID)
	if err != nil || undone != redone { // an undo of one step has the same arguments as an undo of one turn
		return true, false, err
	}
	whole, err = tx.isOnlySaves(ctx, op.After.Head, now.head.Head)
	return true, whole, err
}

// newestWork returns the newest turn or step at or before a commit, or "".
func (tx *txn) newestWork(ctx context.Context, at segno.CommitID) (segno.CommitID, error) {
	for n, err := range segno.Ancestors(ctx, tx.Store, at, segno.Window{Last: 16}) {
		if err != nil {
			return "", err
		}
		if c := n.Checkpoint; c != nil && (c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep) {
			return c.ID, nil
		}
	}
	return "", nil
}

// isOnlySaves reports whether only the user's own changes were recorded between two checkpoints
// of a line.
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

// remainingOf plans a move again and returns the conflicts that are still unresolved. wrote has the changes of the moves that
// overwrote some of them. For a move that was limited to paths, it returns only the verb and the arguments.
func (tx *txn) remainingOf(ctx context.Context, op segno.Operation, now currentState, wrote []segno.Change) (*Plan, error) {
	left := &Plan{Verb: op.Verb, Args: op.Args}
	before, err := tx.operationState(ctx, op.Before)
	if err != nil {
		return nil, err
	}
	result, err := tx.operationState(ctx, op.After)
	if err != nil {
		return nil, err
	}
	then := currentState{threadState: threadState{head: now.head}, snap: *before}
	then.head.Head, then.head.Tip = op.Before.Head, op.Before.Tip
	turns, err := strconv.Atoi(strings.TrimSuffix(op.Args, forced))
	ask := MoveRequest{Verb: op.Verb, Turns: turns, Force: strings.HasSuffix(op.Args, forced)}
	if only := OnlyTurns(op.Args); len(only) > 0 && strings.HasSuffix(op.Args, onlyFlag) { // not limited further
		ask.Only, err = only, nil
	}
	switch {
	case ask.Force && err != nil:
		return left, nil
	case (op.Verb == segno.VerbUndo || op.Verb == segno.VerbRedo) && err == nil:
		err = tx.planAgain(ctx, ask, op, then, left)
	case op.Verb == segno.VerbOpUndo:
		var undone *segno.Operation
		if undone, err = tx.operationByID(ctx, op.Undoes); undone == nil {
			return left, err
		}
		err = tx.planReverse(ctx, *undone, ask, then, left)
	default:
		return left, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := tx.diffStates(ctx, before, result)
	if err != nil {
		return nil, err
	}
	since, err := tx.diffStates(ctx, before, &now.snap)
	written := entities(slices.Concat(after, wrote))
	left.addUnwritten(written)
	left.dropResolved(written, entities(since))
	return left, err
}

// addUnwritten adds the steps that a move did not write, such as those below a symlink, to the conflicts. A directory that was not
// removed has files of others.
func (p *FilePlan) addUnwritten(written map[string]segno.Entity) {
	for _, s := range p.Steps {
		if _, ok := written[s.Path]; !ok && (s.From.Type != segno.EntityDir || s.To.Type != segno.EntityNone) {
			p.Conflicts = append(p.Conflicts, segno.Conflict{Path: s.Path, Why: whyUnwritten})
			p.Forced = append(p.Forced, s)
		}
	}
	p.sortPaths()
}

// planAgain plans an undo or a redo again, which began from the state then. The arguments of an operation do not show whether they
// count turns or steps, but the checkpoint to which it moved does. A plan that leads elsewhere has no files.
func (tx *txn) planAgain(ctx context.Context, ask MoveRequest, op segno.Operation, then currentState, left *Plan) (err error) {
	empty := *left
	for _, ask.Steps = range []bool{false, true} {
		*left = empty
		if err = tx.planVerb(ctx, ask, then, left); segno.KindOf(err) == segno.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		at, err := tx.checkpoint(ctx, op.After.Head)
		if err != nil {
			return err
		}
		if left.steps = ask.Steps; at.ID == left.Target || at.Parent == left.Target {
			return nil
		}
	}
	*left = empty
	return err
}

// operationByID returns an operation of the workspace's log, or nil.
func (tx *txn) operationByID(ctx context.Context, id segno.OperationID) (*segno.Operation, error) {
	for op, err := range tx.operations(ctx) {
		if err != nil {
			return nil, err
		}
		if op.ID == id {
			return &op, nil
		}
	}
	return nil, nil
}

// dropResolved drops the conflicts that the move wrote after all, and those whose paths now
// have the state that the move would have written. after has the changes from the present state
// of the plan to the end of its move, and since has the changes from then until now.
func (p *FilePlan) dropResolved(after, since map[string]segno.Entity) {
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
