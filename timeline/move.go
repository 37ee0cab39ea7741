package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// MoveResult is the result of a move.
type MoveResult struct {
	Plan  *Plan
	Head  *segno.Checkpoint // where the thread is now
	Link  *segno.Link       // the session that continues; nil if the conversation did not move
	Run   []string          // the command that continues it
	Live  int               // the pid of the agent that still has the previous session open, or 0
	Chat  string            // why the conversation could not move, or ""
	Files int               // the number of paths written
	Saved segno.CommitID    // the checkpoint of what no other one had when the move began; "" if there was nothing
}

// Move makes a move. seen, if not nil, is the preview that the user accepted. If the plan differs
// now, because the thread, the files or the operations changed, Move changes nothing and returns a
// [segno.KindConflict] with an [OutdatedError]. Move holds the lock of the workspace from this
// check to the end.
//
// Without a workspace, Move only moves the pointers of the thread, in one commit, and does not
// record an operation.
//
// Move saves the current state, writes the session that continues the conversation as an additional
// session of the agent, writes the plan to the journal, writes the files and reads them back, and
// moves the thread in one commit. If the process ends before the plan is in the journal, nothing
// has moved. If it ends later, the next operation on the workspace completes the move. If that operation is another undo, redo or op
// undo of the thread, it does nothing else and returns a [segno.KindConflict], because the user may have repeated the command.
func (tl *Timeline) Move(ctx context.Context, ask MoveRequest, seen *Plan) (*MoveResult, error) {
	if tl.Workspace == nil {
		return tl.moveHead(ctx, ask, seen)
	}
	if err := tl.refuseAfterRequested(ctx, ask); err != nil {
		return nil, err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if err := tx.completed.CheckRepeated(ask); err != nil {
		return nil, err
	}
	return tx.move(ctx, ask, seen)
}

// CheckRepeated returns a [segno.KindConflict] if a request may repeat a move that was interrupted and is completed now. A user
// repeats a command that failed, and that must not move another turn. A repeated restore does no harm. p is the plan of
// the completed move, or nil if there was none.
func (p *Plan) CheckRepeated(ask MoveRequest) error {
	if p == nil || p.Verb != ask.Verb || p.Verb == segno.VerbRestore || ask.Thread != "" && ask.Thread != p.Thread {
		return nil
	}
	err := segno.Errorf(segno.KindConflict, string(ask.Verb), string(p.Thread), "an earlier %s was interrupted, and it was completed only now", p.Verb)
	if len(p.Conflicts) > 0 {
		err = segno.Errorf(segno.KindConflict, string(ask.Verb), string(p.Thread),
			"an earlier %s was interrupted, and it was completed only now, without paths that changed since: %s", p.Verb, someOf(p.Conflicts))
	}
	return err.WithHint("run 'segno op log' to see it, and the command again if you still want it")
}

// someOf returns the first paths of a list, as a user sees them.
func someOf(list []segno.Conflict) string {
	const most = 5
	var names []string
	for _, c := range list[:min(len(list), most)] {
		names = append(names, segno.QuotePath(c.Path))
	}
	if more := len(list) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// move is [Timeline.Move] under the lock of the workspace.
func (tx *txn) move(ctx context.Context, ask MoveRequest, seen *Plan) (*MoveResult, error) {
	if err := tx.refuseRepeated(ctx, ask); err != nil {
		return nil, err
	}
	p, now, err := tx.plan(ctx, ask)
	if err != nil {
		return nil, err
	}
	if err := p.checkSeen(seen, tx.Workspace.Root()); err != nil {
		return nil, err
	}
	if ask.Parts != nil {
		if err := tx.chooseParts(ctx, p, now, ask.Parts); err != nil {
			return nil, err
		}
	}
	if err := tx.refuseNested(ctx, ask, p); err != nil {
		return nil, err
	}
	before := now.at.ID
	if now, err = tx.savePresent(ctx, now, p); err != nil {
		return nil, err
	}
	moved := &MoveResult{Plan: p}
	if now.at.ID != before {
		moved.Saved = now.at.ID
	}
	if err := tx.moveSession(ctx, now, moved); err != nil {
		return nil, err
	}
	if err := tx.journalPlan(ctx, p); err != nil {
		return nil, err
	}
	// Changes that others made after the current state was saved are not the move's, so scanning
	// the written paths is enough.
	rescan := func(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
		return tx.Workspace.SnapshotAt(ctx, b, slices.Sorted(maps.Keys(entities(p.Steps))))
	}
	if moved.Head, err = tx.execute(ctx, p, p.Steps, rescan); err != nil {
		return moved, err
	}
	moved.Files = len(p.Steps)
	return moved, nil
}

// refuseRepeated returns an error if the log has the operation of a request.
func (tx *txn) refuseRepeated(ctx context.Context, ask MoveRequest) error {
	if ask.Operation == "" {
		return nil
	}
	done, err := tx.operationByID(ctx, ask.Operation)
	if err == nil && done != nil {
		err = segno.Errorf(segno.KindConflict, string(ask.Verb), string(ask.Operation), "the operation was made already").WithHint("run 'segno op log'")
	}
	return err
}

// savePresent commits the state of the workspace if no checkpoint has it yet, so that the move
// cannot lose anything that it overwrites. The plan then begins at that commit.
func (tx *txn) savePresent(ctx context.Context, now currentState, p *Plan) (currentState, error) {
	isSaved, err := tx.isAt(ctx, p, now.at.Workspace, &now.snap)
	if err != nil {
		return now, err
	}
	if isSaved {
		return now, tx.keepStaged(ctx, now.staged)
	}
	if now.threadState, err = tx.saveMoved(ctx, now.threadState, now.snap, segno.TurnKey(p.Operation)); err != nil {
		return now, err
	}
	if now.at.Workspace.Equals(&now.snap) {
		err = tx.keepStaged(ctx, now.staged)
	} else {
		var c segno.Commit
		if c, err = tx.externalCommit(ctx, now.threadState, now.snap, segno.TurnKey(p.Operation)); err != nil {
			return now, err
		}
		c.Staged, c.Parent = now.staged, now.head.Head // the head may be a commit without a checkpoint
		now.head, err = tx.commitRetryingCAS(ctx, c)
		now.at = checkpointOf(&c)
	}
	if err != nil {
		return now, fmt.Errorf("save the current state: %w", err)
	}
	if p.Tip == p.Before.Tip && p.Before.Tip == p.Before.Head {
		p.Tip = now.head.Tip // so that redo reaches the checkpoint just saved
	}
	if p.Restore {
		p.Target = now.head.Head
	}
	p.Before.Head, p.Before.Tip = now.head.Head, now.head.Tip
	return now, nil
}

// journalPlan writes the plan to the journal. It first reads every object that the plan needs,
// so that a plan in the journal can be completed.
func (tx *txn) journalPlan(ctx context.Context, p *Plan) error {
	for _, step := range p.Steps {
		if err := tx.checkReadable(ctx, step.To); err != nil {
			return segno.NewError(segno.KindCorrupt, string(p.Verb), step.Path, err).
				WithHint("nothing was moved; run 'segno check' to list all damage, and restore other paths by name")
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return tx.Spool.WritePlan(ctx, tx.Workspace.ID(), data)
}

// checkReadable returns an error if the store lacks an object of an entity.
func (tx *txn) checkReadable(ctx context.Context, e segno.Entity) error {
	if e.Type == segno.EntityDatabase {
		return tx.checkReadableDatabase(ctx, e)
	}
	for _, h := range []segno.Hash{e.Hash, e.Xattrs} {
		if h.IsZero() {
			continue
		}
		if _, err := tx.Store.Objects().Get(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// completeMove completes an interrupted move. It never rolls one back. Each step of a plan can be
// executed twice.
func (tx *txn) completeMove(ctx context.Context) error {
	data, err := tx.Spool.ReadPlan(ctx, tx.Workspace.ID())
	if err != nil || data == nil {
		return err
	}
	p := new(Plan)
	if err := json.Unmarshal(data, p); err != nil {
		return segno.NewError(segno.KindCorrupt, "complete a move", tx.Workspace.Root(), err).
			WithHint("run 'segno doctor' to see the plan's file; move it aside to go on without it")
	}
	// The commit that moves the thread also adds the operation to the log.
	done, err := tx.operationByID(ctx, p.Operation)
	if err != nil {
		return err
	}
	if done != nil {
		if _, err = tx.finishMove(ctx, p, done); err == nil {
			tx.completed = p
		}
		return err
	}
	tx.dropLost(ctx, p)
	exists, err := tx.retargetPlan(ctx, p)
	if err != nil {
		return err
	}
	steps, err := tx.mergeSince(ctx, p)
	switch {
	case err != nil:
	case exists:
		_, err = tx.execute(ctx, p, steps, nil)
	default: // the thread was deleted; its files stay in the directory
		if _, err = tx.writeSteps(ctx, p, steps); err == nil {
			err = tx.Spool.ClearPlan(ctx, p.Workspace)
		}
	}
	if err != nil {
		return fmt.Errorf("complete the interrupted %s: %w", p.Verb, err)
	}
	tx.completed = p
	return nil
}

// finishMove completes a move that is committed. It removes the changes of the move from the turns
// that were open meanwhile. It deletes the plan last, so that after a crash the next operation
// repeats all of this.
func (tx *txn) finishMove(ctx context.Context, p *Plan, op *segno.Operation) (*segno.Checkpoint, error) {
	s, err := tx.threadState(ctx, p.Thread)
	if err == nil {
		err = tx.loadTurns(ctx) // a turn may have ended while the move wrote the files
	}
	if err != nil {
		return nil, err
	}
	for _, t := range tx.turns {
		if t.Workspace != p.Workspace {
			continue
		}
		if err := tx.moveTurn(ctx, t, op, s.at); err != nil {
			return nil, err
		}
	}
	return s.at, tx.Spool.ClearPlan(ctx, p.Workspace)
}

// retargetPlan changes the plan of an interrupted move if a checkpoint was recorded on its thread
// since then, by a program without the workspace, such as a saver, or by a hook, which records a
// turn even if the move cannot be completed yet. The plan then only writes files, and the thread
// does not move. A file that changed since then is merged or not written. exists reports whether
// the thread still exists.
func (tx *txn) retargetPlan(ctx context.Context, p *Plan) (exists bool, err error) {
	now, err := tx.threadState(ctx, p.Thread)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	before, err := tx.checkpoint(ctx, p.Before.Head)
	if err != nil || now.at.ID == before.ID {
		return true, err
	}
	state, err := tx.workspaceState(ctx)
	if err != nil {
		return true, err
	}
	if state.Snapshot != nil {
		if err := tx.rebase(ctx, p, state.Snapshot); err != nil {
			return true, err
		}
		p.Before.Tree = state.Snapshot.Tree
	}
	p.Before.Head, p.Before.Tip, p.Before.Session = now.head.Head, now.head.Tip, now.head.Link.Session
	p.Target, p.Tip, p.Session, p.Link = now.head.Head, nextTip(now.head), nil, nil
	return true, nil
}

// dropLost turns the steps whose contents were damaged after the plan was written into conflicts,
// so that the other steps can be completed.
func (tx *txn) dropLost(ctx context.Context, p *Plan) {
	kept := p.Steps[:0]
	for _, step := range p.Steps {
		switch err := tx.checkReadable(ctx, step.To); segno.KindOf(err) {
		case segno.KindCorrupt, segno.KindNotFound:
			p.Conflicts = append(p.Conflicts, segno.Conflict{Path: step.Path, Why: "its content is damaged in the store"})
		default:
			kept = append(kept, step)
		}
	}
	p.Steps = kept
}

// execute writes steps, commits the plan's result and deletes the plan. rescan saves the written
// paths. It is nil for a move that was interrupted.
func (tx *txn) execute(ctx context.Context, p *Plan, steps []segno.Change, rescan snapshotFunc) (*segno.Checkpoint, error) {
	target, err := tx.treeAt(ctx, p.Target)
	if err != nil {
		return nil, err
	}
	tx.Workspace.Cover(segno.Coverage{Tree: p.Before.Tree, Strict: true}, segno.Coverage{Tree: target, Strict: true})
	refused, err := tx.writeSteps(ctx, p, steps)
	if err != nil {
		return nil, fmt.Errorf("write files: %w", err)
	}
	p.Conflicts = append(p.Conflicts, refused...)
	tx.Workspace.Cover(segno.Coverage{Tree: target})
	p.sortPaths()
	late := rescan == nil
	if late {
		rescan = tx.Workspace.Snapshot // any file may have changed in between
	}
	present, staged, err := tx.snapshotWith(ctx, rescan)
	if err != nil {
		return nil, err
	}
	result, more, err := tx.ownState(ctx, p, refused, late, present)
	if err != nil {
		return nil, err
	}
	op, err := tx.commitMove(ctx, p, result, joinStaged(staged, more))
	if err != nil {
		return nil, err
	}
	return tx.finishMove(ctx, p, op)
}

// writeSteps writes steps, and returns those that it could not write. A merged file is newer than
// the target checkpoint. Its modification time is the current time, so that build tools notice the
// change.
func (tx *txn) writeSteps(ctx context.Context, p *Plan, steps []segno.Change) ([]segno.Conflict, error) {
	var plain, merged []segno.Change
	for _, step := range steps {
		if step.Merged {
			merged = append(merged, step)
		} else {
			plain = append(plain, step)
		}
	}
	refused, err := tx.Workspace.Apply(ctx, plain, p.Times)
	if err == nil && len(merged) > 0 {
		var more []segno.Conflict
		more, err = tx.Workspace.Apply(ctx, merged, segno.Hash{})
		refused = append(refused, more...)
	}
	return refused, err
}

// commitMove moves the thread. If the files differ from those of the target checkpoint, because the
// user's own changes were kept, it adds an external checkpoint.
func (tx *txn) commitMove(ctx context.Context, p *Plan, result segno.Snapshot, staged segno.Staged) (*segno.Operation, error) {
	target, err := tx.checkpoint(ctx, p.Target)
	if err != nil {
		return nil, err
	}
	head, err := tx.Store.Head(ctx, p.Thread)
	if err != nil {
		return nil, err
	}
	id := segno.CommitID(segno.DerivedID("move", string(p.Operation)))
	op := &segno.Operation{ID: p.Operation, Workspace: p.Workspace, Thread: p.Thread, Verb: p.Verb, Args: p.Args, Actor: p.Actor,
		Time: p.Made, Before: p.Before, Undoes: p.Undoes,
		After: segno.Pointers{Head: p.Target, Tip: p.Tip, Session: p.Before.Session, Tree: result.Tree}}
	c := segno.Commit{ID: id, Thread: p.Thread, Expect: head.Head, Epoch: head.Epoch, Staged: staged,
		Move: &segno.Move{Head: p.Target, Tip: p.Tip}, Link: p.Link, Operation: op,
		Workspace: tx.workspaceStateAfter(p.Thread, id, &result)}
	if p.Link != nil {
		op.After.Session = p.Link.Session
	}
	isThere := target.Workspace == nil
	if !isThere {
		if isThere, err = tx.isAt(ctx, p, target.Workspace, &result); err != nil {
			return nil, err
		}
	}
	if p.Restore || !isThere {
		if c.Checkpoint, err = tx.saveDifference(ctx, p, target, result); err != nil {
			return nil, err
		}
		c.Parent, c.Move.Head, op.After.Head = p.Target, segno.Self, id
		if p.Tip == segno.Self {
			op.After.Tip = id
		}
	} else if p.Tip == segno.Self { // no checkpoint follows the current one
		c.Move.Tip, op.After.Tip = p.Target, p.Target
	}
	if op.Before.Tree, err = tx.savedTree(ctx, p, op.Before); err != nil {
		return nil, err
	}
	if isThere && hasTree(target.Workspace) {
		op.After.Tree = target.Tree()
	}
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return nil, fmt.Errorf("commit %s: %w", p.Verb, err)
	}
	return op, nil
}

// saveDifference returns a checkpoint for the result of a move, if no checkpoint has that result
// yet.
func (tx *txn) saveDifference(ctx context.Context, p *Plan, target *segno.Checkpoint, result segno.Snapshot) (*segno.Checkpoint, error) {
	counts, err := tx.count(ctx, target.Tree(), result.Tree)
	if err != nil {
		return nil, err
	}
	cp := &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: target.Turn, Time: p.Made, Agent: target.Agent, Files: counts,
		Session: target.Session, Step: target.Step, Members: target.Members, Workspace: &result, Label: "kept after " + string(p.Verb)}
	if p.Restore {
		cp.Kind, cp.Label = segno.CheckpointRestore, p.Label
		if p.Session != nil {
			cp.Session = p.Session
		}
	}
	return cp, nil
}
