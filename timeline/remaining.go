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
	p.split(slices.Concat(left.Forced, left.emptied))
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

// isFinish reports whether a move of whole turns, or the reverse of one, overwrote the conflicts of the move before it. Such a move stays at its turn.
func (tx *txn) isFinish(ctx context.Context, op *segno.Operation) (bool, error) {
	if op.Verb == segno.VerbOpUndo && op.Undoes == "" {
		return true, nil
	}
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
	before, result, err := tx.operationStates(ctx, &op)
	if err != nil {
		return nil, err
	}
	then := currentState{threadState: threadState{head: now.head}, snap: *before, until: op.ID}
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
	left.setEmptied(written, entities(since))
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

// setEmptied sets the directories that the move did not remove because of conflicts in them. since has the changes from the beginning of
// the move until now.
func (p *Plan) setEmptied(written, since map[string]segno.Entity) {
	for _, s := range slices.Concat(p.Steps, p.full) {
		_, isWritten := written[s.Path]
		isIn := func(c segno.Change) bool {
			return c.To.Type == segno.EntityNone && strings.HasPrefix(c.Path, s.Path+"/")
		}
		if isWritten || s.From.Type != segno.EntityDir || s.To.Type != segno.EntityNone || !slices.ContainsFunc(p.Forced, isIn) {
			continue
		}
		if e, ok := since[s.Path]; ok {
			s.From = e
		}
		if s.From.Type == segno.EntityDir {
			p.emptied = append(p.emptied, s)
		}
	}
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
