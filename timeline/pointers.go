package timeline

import (
	"context"

	"github.com/dalsegno/segno"
)

// MoveHead is [Timeline.Move] for a timeline without a workspace: it plans undo, redo and restore
// in the same way and then moves the thread's pointers in one commit. It deletes nothing. If there
// are fewer turns to undo or redo than ask requests, nothing moves and the error has
// [segno.KindNotFound].
func (tl *Timeline) MoveHead(ctx context.Context, ask MoveRequest) (segno.Head, error) {
	tx := tl.unlocked()
	p, head, err := tx.planHead(ctx, ask)
	if err != nil {
		return head, err
	}
	return tx.commitHead(ctx, p, head)
}

// moveHead is Move without a workspace. The commit expects the head for which the plan was made,
// so that nothing can change between the check of seen and the move.
func (tl *Timeline) moveHead(ctx context.Context, ask MoveRequest, seen *Plan) (*MoveResult, error) {
	tx := tl.unlocked()
	p, head, err := tx.planHead(ctx, ask)
	if err != nil {
		return nil, err
	}
	if err := p.checkSeen(seen, string(p.Thread)); err != nil {
		return nil, err
	}
	if head, err = tx.commitHead(ctx, p, head); err != nil {
		return nil, err
	}
	at, err := tx.checkpoint(ctx, head.Head)
	return &MoveResult{Plan: p, Head: at}, err
}

// planHead plans a move of pointers from the head that it returns.
func (tx *txn) planHead(ctx context.Context, ask MoveRequest) (*Plan, segno.Head, error) {
	head, err := tx.Store.Head(ctx, ask.Thread)
	if err != nil {
		return nil, head, err
	}
	p := &Plan{Operation: ask.operation(), Verb: ask.Verb, Thread: ask.Thread,
		Before: segno.Pointers{Head: head.Head, Tip: head.Tip, Session: head.Link.Session}}
	return p, head, tx.planVerb(ctx, ask, currentState{threadState: threadState{head: head}}, p)
}

// commitHead moves the pointers of a thread from head to those of a plan.
func (tx *txn) commitHead(ctx context.Context, p *Plan, head segno.Head) (segno.Head, error) {
	c := newCommit(head)
	c.Move = &segno.Move{Head: p.Target, Tip: p.Tip}
	if tx.Lease.Epoch != 0 && tx.Lease.Thread == c.Thread {
		c.Epoch = tx.Lease.Epoch
	}
	return tx.Store.Commit(ctx, c)
}

// planRestoreHead plans to move the head to a checkpoint of the thread or one of its ancestors.
func (tx *txn) planRestoreHead(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	target, err := tx.Store.Load(ctx, ask.To, segno.Window{Last: 1})
	if err != nil {
		return err
	}
	x := target.Commits[0].Checkpoint
	if x == nil {
		return segno.Errorf(segno.KindInvalid, "restore", string(ask.To), "the commit has no checkpoint")
	}
	if err := tx.setRestoreTarget(ctx, x, now, p); err != nil {
		return err
	}
	if p.Tip == x.ID && x.Thread != ask.Thread && x.ID != now.head.Tip {
		return segno.Errorf(segno.KindRefused, "restore", string(x.ID), "the checkpoint belongs to another thread").
			WithHint("fork there instead")
	}
	return nil
}

// ForkThread makes a thread that begins at a checkpoint or, if anyCommit is set, at a commit
// between two checkpoints. It copies no files. It makes one small commit, regardless of the length
// of the line. If another thread has the id, the error has [segno.KindConflict].
func (tl *Timeline) ForkThread(ctx context.Context, at segno.CommitID, as segno.Thread, anyCommit bool) (segno.Head, error) {
	if there, err := tl.Store.Head(ctx, as.ID); err == nil {
		return segno.Head{}, segno.NewError(segno.KindConflict, "fork", string(as.ID), &segno.ConflictError{Actual: there}).
			WithHint("fork to a name that is free")
	}
	from, err := tl.forkBase(ctx, at, anyCommit)
	if err != nil {
		return segno.Head{}, err
	}
	as.Parent = at
	c := *from
	c.Kind, c.Time, c.Key, c.Label, c.Amends = segno.CheckpointBase, as.Created, "", "", ""
	head, err := tl.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: as.ID, Create: &as, Parent: at, Checkpoint: &c})
	if segno.KindOf(err) == segno.KindNotFound {
		err = segno.Errorf(segno.KindRefused, "fork", string(as.ID), "a thread of that name was deleted").WithHint("fork to another name")
	}
	return head, err
}

// forkBase returns the checkpoint with which a fork begins: at itself, or the newest one before
// it.
func (tl *Timeline) forkBase(ctx context.Context, at segno.CommitID, anyCommit bool) (*segno.Checkpoint, error) {
	for n, err := range segno.Ancestors(ctx, tl.Store, at, segno.Window{}) {
		switch {
		case err != nil:
			return nil, err
		case n.Checkpoint != nil:
			return n.Checkpoint, nil
		case !anyCommit:
			return nil, segno.Errorf(segno.KindInvalid, "fork", string(at), "the commit has no checkpoint")
		}
	}
	return nil, segno.Errorf(segno.KindInvalid, "fork", string(at), "the commit has no ancestor with a checkpoint")
}
