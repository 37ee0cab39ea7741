package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/dalsegno/segno"
)

// MoveResult is what a move did.
type MoveResult struct {
	Plan  *Plan
	Head  *segno.Checkpoint // where the thread is now
	Link  *segno.Link       // the session to go on in; nil if the conversation stayed
	Run   []string          // the command that does
	Live  int               // the pid of the agent that still holds the session before, or 0
	Chat  string            // why the conversation could not move, or ""
	Files int               // paths written
}

// Move makes a move. seen, if not nil, is the preview that the user agreed to: if the
// workspace now needs other writes, Move fails with [segno.KindConflict] and changes
// nothing.
//
// Move saves the present, writes the session that continues the conversation beside the
// agent's own, writes the plan to the journal, writes the files and reads them back, and
// moves the thread in one commit. If the process ends before the plan is in the journal,
// nothing has moved; if it ends later, the next operation on the workspace completes the
// move.
func (tl *Timeline) Move(ctx context.Context, ask MoveRequest, seen *Plan) (*MoveResult, error) {
	tx, err := tl.lockForMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	p, now, err := tx.plan(ctx, ask)
	if err != nil {
		return nil, err
	}
	if seen != nil && !sameSteps(seen.Steps, p.Steps) {
		return nil, segno.Errorf(segno.KindConflict, string(ask.Verb), tx.Workspace.Root(), "the files changed since the preview").WithHint("run the command again to see the new plan")
	}
	if now, err = tx.savePresent(ctx, now, p); err != nil {
		return nil, err
	}
	moved := &MoveResult{Plan: p}
	if err := tx.moveSession(ctx, now, moved); err != nil {
		return nil, err
	}
	if err := tx.journalPlan(ctx, p); err != nil {
		return nil, err
	}
	if moved.Head, err = tx.execute(ctx, p, tx.rescanSteps(p.Steps)); err != nil {
		return moved, err
	}
	moved.Files = len(p.Steps)
	return moved, nil
}

// startThreadOver makes open turns that a forced move ignored begin from the result of the
// move, because its changes are not their own.
func (tx *txn) startThreadOver(ctx context.Context, thread segno.ThreadID, head *segno.Checkpoint) error {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Workspace != tx.Workspace.ID() || head.Workspace == nil {
			continue
		}
		if t.Before = head.Workspace; t.Thread == thread {
			t.Parent = head.ID
		}
		if err := tx.Spool.Open(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func sameSteps(a, b []segno.Change) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// savePresent commits what the workspace holds if no checkpoint does yet, so that
// nothing a move overwrites is lost.
func (tx *txn) savePresent(ctx context.Context, now currentState, p *Plan) (currentState, error) {
	if now.at.Tree() == now.snap.Tree {
		return now, tx.keepStaged(ctx, now.staged)
	}
	if err := tx.saveMoved(ctx, &now, p); err != nil {
		return now, err
	}
	if now.at.Tree() == now.snap.Tree {
		return tx.planFromSaved(now, p), tx.keepStaged(ctx, now.staged)
	}
	c, err := tx.externalCommit(ctx, now.head, now.at, now.snap, segno.TurnKey(p.Operation))
	if err != nil {
		return now, err
	}
	c.Staged, c.Parent = now.staged, now.head.Head // the head may be a commit without a checkpoint
	if now.head, err = tx.commitRetryingCAS(ctx, c); err != nil {
		return now, fmt.Errorf("save the present: %w", err)
	}
	if now.at, err = tx.checkpoint(ctx, now.head.Head); err != nil {
		return now, err
	}
	return tx.planFromSaved(now, p), nil
}

// saveMoved commits what other threads did since the thread's head, so that it does
// not count as the user's.
func (tx *txn) saveMoved(ctx context.Context, now *currentState, p *Plan) error {
	c, err := tx.movedCommit(ctx, now.head, now.at, now.at, now.snap, segno.TurnKey(p.Operation))
	if err != nil || c == nil {
		return err
	}
	c.Parent = now.head.Head // the head may be a commit without a checkpoint
	if now.head, err = tx.commitRetryingCAS(ctx, *c); err != nil {
		return fmt.Errorf("save the present: %w", err)
	}
	now.at, err = tx.checkpoint(ctx, now.head.Head)
	return err
}

// planFromSaved makes a plan begin where the present was saved.
func (tx *txn) planFromSaved(now currentState, p *Plan) currentState {
	if p.Tip == p.Before.Tip && p.Before.Tip == p.Before.Head {
		p.Tip = now.head.Tip // redo reaches the checkpoint that was just saved
	}
	if p.Restore {
		p.Landing = now.head.Head
	}
	p.Before.Head, p.Before.Tip = now.head.Head, now.head.Tip
	return now
}

// keepStaged makes staged objects durable that no commit names: a snapshot equal to its
// checkpoint may still have modification times to write.
func (tx *txn) keepStaged(ctx context.Context, staged segno.Staged) error {
	if staged.IsZero() {
		return nil
	}
	return tx.Store.Objects().Keep(ctx, staged)
}

// journalPlan writes the plan to the journal, once everything it needs has been read: a
// plan in the journal can be completed.
func (tx *txn) journalPlan(ctx context.Context, p *Plan) error {
	for _, step := range p.Steps {
		if err := tx.checkReadable(ctx, step.To); err != nil {
			return segno.NewError(segno.KindCorrupt, string(p.Verb), step.Path, err).WithHint("nothing was moved; run 'segno check' to list all damage, and restore other paths by name")
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return tx.Journal.Write(ctx, tx.Workspace.ID(), data)
}

// checkReadable reports whether the store holds what an entity is made of.
func (tx *txn) checkReadable(ctx context.Context, e segno.Entity) error {
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

// completeMove completes an interrupted move forward. Each step of a plan can be executed
// twice.
func (tx *txn) completeMove(ctx context.Context) error {
	data, err := tx.Journal.Read(ctx, tx.Workspace.ID())
	if err != nil || data == nil {
		return err
	}
	p := new(Plan)
	if err := json.Unmarshal(data, p); err != nil {
		return segno.NewError(segno.KindCorrupt, "complete a move", tx.Workspace.Root(), err).WithHint("run 'segno doctor' to see the plan's file; move it aside to go on without it")
	}
	if done, err := tx.isCommitted(ctx, p); err != nil {
		return err
	} else if done { // all but this was
		head, err := tx.headOf(ctx, p.Thread)
		if err != nil {
			return err
		}
		if err := tx.startThreadOver(ctx, p.Thread, head); err != nil {
			return err
		}
		return tx.Journal.Clear(ctx, p.Workspace)
	}
	if err := tx.checkStillValid(ctx, p); err != nil {
		return err
	}
	tx.dropLost(ctx, p)
	if _, err := tx.execute(ctx, p, tx.Workspace.Snapshot); err != nil { // anything may have happened in between
		return fmt.Errorf("complete the interrupted %s: %w", p.Verb, err)
	}
	return nil
}

// headOf returns the checkpoint that a thread is at.
func (tx *txn) headOf(ctx context.Context, thread segno.ThreadID) (*segno.Checkpoint, error) {
	head, err := tx.Store.Head(ctx, thread)
	if err != nil {
		return nil, err
	}
	return tx.checkpoint(ctx, head.Head)
}

// checkStillValid drops a plan that could not be completed for a while, if turns were
// recorded since: completing it now would revert their changes. The files that the plan
// had written already are part of the history of those turns.
func (tx *txn) checkStillValid(ctx context.Context, p *Plan) error {
	head, err := tx.Store.Head(ctx, p.Thread)
	if err != nil || head.Head == p.Before.Head {
		return err
	}
	if err := tx.Journal.Clear(ctx, p.Workspace); err != nil {
		return err
	}
	return segno.Errorf(segno.KindConflict, string(p.Verb), tx.Workspace.Root(), "it was interrupted, and turns were recorded since; it is dropped, and the files stay as they are").WithHint("run 'segno log', then the command you want")
}

// dropLost makes conflicts of the steps whose content was damaged since the plan
// was written: what can be completed is.
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

// rescanner is a [Workspace] that can tell what came of an Apply without a look at
// everything.
type rescanner interface {
	// SnapshotAt is Snapshot right after another one, if since then only paths
	// changed. Whatever else did is for the next Snapshot to see.
	SnapshotAt(ctx context.Context, b segno.Batch, paths []string) (segno.Snapshot, error)
}

// rescanSteps returns what saves the workspace once steps were taken from a state that
// was just saved.
func (tx *txn) rescanSteps(steps []segno.Change) snapshotFunc {
	w, ok := tx.Workspace.(rescanner)
	if !ok {
		return tx.Workspace.Snapshot
	}
	paths := make([]string, len(steps))
	for i, step := range steps {
		paths[i] = step.Path
	}
	return func(ctx context.Context, b segno.Batch) (segno.Snapshot, error) { return w.SnapshotAt(ctx, b, paths) }
}

// snapshotFunc is [Workspace.Snapshot], or as good.
type snapshotFunc func(ctx context.Context, b segno.Batch) (segno.Snapshot, error)

// execute takes a plan's steps, commits what came of them and clears the journal.
// snapshot saves the workspace in between.
func (tx *txn) execute(ctx context.Context, p *Plan, snapshot snapshotFunc) (*segno.Checkpoint, error) {
	landing, err := tx.treeAt(ctx, p.Landing)
	if err != nil {
		return nil, err
	}
	tx.cover(segno.Coverage{Tree: p.Before.Tree, Strict: true}, segno.Coverage{Tree: landing, Strict: true})
	if err := tx.writeSteps(ctx, p); err != nil {
		return nil, fmt.Errorf("write files: %w", err)
	}
	tx.cover(segno.Coverage{Tree: landing})
	sort.Slice(p.Conflicts, func(i, j int) bool { return p.Conflicts[i].Path < p.Conflicts[j].Path })
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	result, err := snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage snapshot: %w", err)
	}
	if err := tx.commitMove(ctx, p, result, staged); err != nil {
		return nil, err
	}
	head, err := tx.headOf(ctx, p.Thread)
	if err != nil {
		return nil, err
	}
	// Before the journal is cleared, so that the next command does it after a crash.
	if err := tx.startThreadOver(ctx, p.Thread, head); err != nil {
		return nil, err
	}
	return head, tx.Journal.Clear(ctx, tx.Workspace.ID())
}

// writeSteps takes a plan's steps. A merged file is newer than the checkpoint landed
// on: it gets the present as its modification time, so that build tools see it.
func (tx *txn) writeSteps(ctx context.Context, p *Plan) error {
	var plain, merged []segno.Change
	for _, step := range p.Steps {
		if step.Merged {
			merged = append(merged, step)
		} else {
			plain = append(plain, step)
		}
	}
	conflicts, err := tx.Workspace.Apply(ctx, plain, p.Times)
	if err != nil {
		return err
	}
	p.Conflicts = append(p.Conflicts, conflicts...)
	if len(merged) == 0 {
		return nil
	}
	conflicts, err = tx.Workspace.Apply(ctx, merged, segno.Hash{})
	p.Conflicts = append(p.Conflicts, conflicts...)
	return err
}

// commitMove moves the thread. If the files differ from those of the checkpoint it lands on,
// because the user's own changes were kept, it adds an external checkpoint.
func (tx *txn) commitMove(ctx context.Context, p *Plan, result segno.Snapshot, staged segno.Staged) error {
	landing, err := tx.checkpoint(ctx, p.Landing)
	if err != nil {
		return err
	}
	head, err := tx.Store.Head(ctx, p.Thread)
	if err != nil {
		return err
	}
	id := segno.CommitID(segno.DerivedID("move", string(p.Operation)))
	op := &segno.Operation{ID: p.Operation, Workspace: p.Workspace, Thread: p.Thread, Verb: p.Verb, Args: p.Args,
		Time: p.Made, Before: p.Before, Undoes: p.Undoes,
		After: segno.Pointers{Head: p.Landing, Tip: p.Tip, Session: p.Before.Session, Tree: result.Tree}}
	c := segno.Commit{ID: id, Thread: p.Thread, Expect: head.Head, Epoch: head.Epoch, Staged: staged,
		Move: &segno.Move{Head: p.Landing, Tip: p.Tip}, Link: p.Link, Operation: op,
		Workspace: tx.workspaceStateAfter(p.Thread, id, &result)}
	if p.Link != nil {
		op.After.Session = p.Link.Session
	}
	if p.Restore || (landing.Workspace != nil && landing.Tree() != result.Tree) {
		if c.Checkpoint, err = tx.saveDifference(ctx, p, landing, result); err != nil {
			return err
		}
		c.Parent, c.Move.Head, op.After.Head = p.Landing, segno.Self, id
		if p.Tip == segno.Self {
			op.After.Tip = id
		}
	}
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return fmt.Errorf("commit %s: %w", p.Verb, err)
	}
	return nil
}

// isCommitted reports whether a plan's operation is in the log. It gets there in the
// same commit that moves the thread.
func (tx *txn) isCommitted(ctx context.Context, p *Plan) (bool, error) {
	log, ok := tx.Store.(segno.Workspaces)
	if !ok {
		return false, nil
	}
	const recent = 64 // a plan in the journal is the newest thing that was done here, or all but
	n := 0
	for op, err := range log.Operations(ctx, p.Workspace) {
		if err != nil {
			return false, fmt.Errorf("read operations: %w", err)
		}
		if op.ID == p.Operation {
			return true, nil
		}
		if n++; n == recent {
			break
		}
	}
	return false, nil
}

// saveDifference is the checkpoint of a move whose result no checkpoint holds yet.
func (tx *txn) saveDifference(ctx context.Context, p *Plan, landing *segno.Checkpoint, result segno.Snapshot) (*segno.Checkpoint, error) {
	counts, err := tx.count(ctx, landing.Tree(), result.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	cp := &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: landing.Turn, Time: p.Made, Agent: landing.Agent, Files: counts,
		Session: landing.Session, Step: landing.Step, Members: landing.Members, Workspace: &result, Label: "kept after " + string(p.Verb)}
	if p.Restore {
		cp.Kind, cp.Label = segno.CheckpointRestore, p.Label
		if p.Session != nil {
			cp.Session = p.Session
		}
	}
	return cp, nil
}
