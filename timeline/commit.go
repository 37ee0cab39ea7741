package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// commitRetryingCAS commits c. If another writer moved the head meanwhile, it commits c at the
// start of a new line at its parent, so that no turn is lost. A commit that leaves the head where it is
// then leaves it where the other writer moved it.
func (tx *txn) commitRetryingCAS(ctx context.Context, c segno.Commit) (segno.Head, error) {
	held := tx.Lease.Epoch != 0 && tx.Lease.Thread == c.Thread
	for {
		if held {
			c.Epoch = tx.Lease.Epoch
		}
		head, err := tx.Store.Commit(ctx, c)
		if segno.KindOf(err) == segno.KindFenced && !held {
			// Another process took a lease after the head was read. The lease fences only other
			// holders of it; a writer without a lease compares heads.
			now, err := tx.Store.Head(ctx, c.Thread)
			if err != nil || now.Epoch <= c.Epoch {
				return now, errors.Join(err, segno.NewError(segno.KindFenced, "commit", string(c.Thread), nil))
			}
			c.Epoch = now.Epoch
			continue
		}
		var late *segno.ConflictError
		if !errors.As(err, &late) || late.Actual.Head == c.Expect {
			return head, err
		}
		if c.Move != nil && c.Move.Head == c.Expect && c.Operation == nil { // c leaves the head where it is
			c.Move = &segno.Move{Head: late.Actual.Head, Tip: late.Actual.Tip}
		}
		c.Expect, c.Epoch = late.Actual.Head, late.Actual.Epoch
		if cp := c.Checkpoint; cp != nil && cp.Kind == segno.CheckpointTurn && cp.Amends == "" {
			cp.Turn = late.Actual.Turn + 1
			for i := range c.Entries {
				c.Entries[i].Turn = cp.Turn
			}
		}
	}
}

// commitOrDefer commits c, or defers it if the store is busy. It returns the thread's head after c,
// and c's checkpoint if it has one.
func (tx *txn) commitOrDefer(ctx context.Context, head segno.Head, c segno.Commit) (threadState, error) {
	if !tx.deferred {
		next, err := tx.commitRetryingCAS(ctx, c)
		if segno.KindOf(err) == segno.KindBusy && err != nil {
			err = tx.deferCommits(ctx)
		} else if err == nil {
			return threadState{next, checkpointOf(&c)}, nil
		}
		if err != nil {
			return threadState{head: head}, err
		}
	}
	if err := tx.Spool.Defer(ctx, []segno.Commit{c}); err != nil {
		return threadState{head: head}, err
	}
	return tx.add(c, head), nil
}

// commitIdempotent commits c, unless an earlier attempt has already made the commit with its id. It then
// keeps that commit and returns the current head of the thread. Like [txn.commitOrDefer], it writes c to
// the spool if the store is busy.
func (tx *txn) commitIdempotent(ctx context.Context, head segno.Head, c segno.Commit) (threadState, error) {
	at, err := tx.checkpoint(ctx, c.ID)
	if segno.KindOf(err) == segno.KindNotFound {
		return tx.commitOrDefer(ctx, head, c)
	}
	if err == nil { // later commits need the objects that this attempt staged
		err = tx.keepStaged(ctx, c.Staged)
	}
	if err != nil {
		return threadState{head: head}, err
	}
	return tx.threadState(ctx, at.Thread)
}

// checkpointOf returns a commit's checkpoint as the store will return it, except for its sequence
// number.
func checkpointOf(c *segno.Commit) *segno.Checkpoint { return ledger.Checkpoint(c, 0) }

// headAfter returns the head of a thread after a commit.
func headAfter(c *segno.Commit, h segno.Head) segno.Head {
	return ledger.Next(&ledger.Thread{Head: h, Exists: true}, c, h.Turn).Head
}

// externalCommit returns a commit that records a change of the workspace since checkpoint at
// that the thread's agent did not make.
func (tx *txn) externalCommit(ctx context.Context, s threadState, snap segno.Snapshot, salt segno.TurnKey) (segno.Commit, error) {
	head, at := s.head, s.at
	counts, err := tx.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return segno.Commit{}, err
	}
	state := snap.Tree.String()
	if snap.World != nil {
		state += snap.World.Data.String()
	}
	id := segno.CommitID(segno.DerivedID("external", string(at.ID), state, string(salt)))
	return segno.Commit{
		ID: id, Thread: head.Thread, Parent: at.ID, Expect: head.Head, Epoch: head.Epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: at.Turn, Time: tx.Now(), Agent: at.Agent,
			Files: counts, Session: at.Session, Workspace: &snap, Step: at.Step, Members: at.Members},
		Move:      &segno.Move{Head: segno.Self, Tip: nextTip(head)},
		Workspace: tx.workspaceStateAfter(head.Thread, id, &snap),
	}, nil
}

// commitExternal commits or defers the commit of externalCommit.
func (tx *txn) commitExternal(ctx context.Context, s threadState, snap segno.Snapshot, staged segno.Staged, salt segno.TurnKey) (threadState, error) {
	c, err := tx.externalCommit(ctx, s, snap, salt)
	if err != nil {
		return s, err
	}
	c.Staged = staged
	return tx.commitOrDefer(ctx, s.head, c)
}

// commitExternalChanges commits an external checkpoint if the workspace differs from the head
// of a thread.
func (tx *txn) commitExternalChanges(ctx context.Context, thread segno.ThreadID, salt segno.TurnKey) error {
	s, err := tx.threadState(ctx, thread)
	if err != nil {
		return err
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return err
	}
	if s.at.Workspace == nil || s.at.Workspace.Equals(&snap) {
		return tx.keepStaged(ctx, staged)
	}
	_, err = tx.commitExternal(ctx, s, snap, staged, salt)
	return err
}

// deferCommits makes this operation defer its commits and append them to those that are already
// deferred. Its queries then return the state of the threads after all deferred commits.
func (tx *txn) deferCommits(ctx context.Context) (err error) {
	tx.deferred = true
	tx.waiting, err = tx.Spool.ListDeferred(ctx)
	return err
}

// replayDeferred applies deferred commits in order. It also counts their files, which could not be
// read before.
func (tx *txn) replayDeferred(ctx context.Context) error {
	return tx.Spool.ReplayDeferred(ctx, func(c segno.Commit) error {
		if c.Checkpoint != nil {
			if _, err := tx.Store.Load(ctx, c.ID, segno.Window{Last: 1}); segno.KindOf(err) != segno.KindNotFound {
				return err // another process committed c and ended before it deleted c from the spool
			}
		}
		if err := tx.keepStaged(ctx, c.Staged); err != nil {
			return err
		}
		if c.Checkpoint != nil && c.Parent != "" {
			parent, err := tx.checkpoint(ctx, c.Parent)
			if err != nil {
				return err
			}
			if c.Checkpoint.Files, err = tx.count(ctx, parent.Tree(), c.Checkpoint.Tree()); err != nil {
				return err
			}
		}
		_, err := tx.commitRetryingCAS(ctx, c)
		return err
	})
}

// keepStaged makes staged objects durable if no commit names them: a snapshot that equals its
// checkpoint may still have modification times to write.
func (tx *txn) keepStaged(ctx context.Context, staged segno.Staged) error {
	if staged.IsZero() {
		return nil
	}
	return tx.Store.Objects().Keep(ctx, staged)
}

// keepOrHold makes staged objects durable. If the store is busy, the open turn keeps them until it
// ends.
func (tx *txn) keepOrHold(ctx context.Context, staged segno.Staged, turn *OpenTurn) error {
	if !tx.deferred {
		if err := tx.keepStaged(ctx, staged); segno.KindOf(err) != segno.KindBusy {
			return err
		}
	}
	turn.Staged = staged
	return nil
}

// newCommit returns a commit with a random id that follows a head.
func newCommit(head segno.Head) segno.Commit {
	return segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch}
}

// nextTip returns the tip of a thread after a new checkpoint at its head. If the tip is above
// the head, it stays, so that redo still reaches the undone turns.
func nextTip(head segno.Head) segno.CommitID {
	if head.Tip == head.Head {
		return segno.Self
	}
	return head.Tip
}

// snapshot saves the workspace. The caller commits or keeps the staged objects.
func (tx *txn) snapshot(ctx context.Context) (segno.Snapshot, segno.Staged, error) {
	return tx.snapshotWith(ctx, tx.Workspace.Snapshot)
}

// snapshotFunc is [segno.Workspace.Snapshot] or a faster function with the same result.
type snapshotFunc func(ctx context.Context, b segno.Batch) (segno.Snapshot, error)

func (tx *txn) snapshotWith(ctx context.Context, take snapshotFunc) (snap segno.Snapshot, staged segno.Staged, err error) {
	batch := tx.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	if snap, err = take(ctx, batch); err != nil {
		return snap, staged, fmt.Errorf("snapshot workspace: %w", err)
	}
	if staged, err = batch.Stage(ctx); err != nil {
		err = fmt.Errorf("stage snapshot: %w", err)
	}
	return snap, staged, err
}

// workspaceStateAfter returns the state of the workspace after a commit.
func (tx *txn) workspaceStateAfter(thread segno.ThreadID, by segno.CommitID, snap *segno.Snapshot) *segno.WorkspaceState {
	return &segno.WorkspaceState{Workspace: tx.Workspace.ID(), Thread: thread, Snapshot: snap, By: by, Time: tx.Now()}
}

func (tx *txn) diff(ctx context.Context, from, to segno.Hash) ([]segno.Change, error) {
	changes, err := tx.Workspace.Diff(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("compare files: %w", err)
	}
	return changes, nil
}

// CountSince counts the files that differ between a checkpoint and now, the state of the workspace. It leaves out protected
// paths that differed already when segno last recorded the workspace, such as those that a pull did not bring.
func (tl *Timeline) CountSince(ctx context.Context, c *segno.Checkpoint, now *segno.Snapshot) (n segno.Counts, err error) {
	tx := tl.unlocked()
	if c.Tree().IsZero() || !hasTree(now) || c.Tree() == now.Tree {
		return n, nil
	}
	changes, err := tx.diff(ctx, c.Tree(), now.Tree)
	if err != nil {
		return n, err
	}
	state, err := tx.workspaceState(ctx)
	if err != nil {
		return n, err
	}
	if hasTree(state.Snapshot) && state.Thread == c.Thread {
		since, err := tx.diff(ctx, state.Snapshot.Tree, now.Tree)
		if err != nil {
			return n, err
		}
		changed := entities(since)
		changes = slices.DeleteFunc(changes, func(c segno.Change) bool {
			_, isSince := changed[c.Path]
			return !isSince && isOfMachine(c)
		})
	}
	return tx.withLost(ctx, CountChanges(changes), c.Tree(), now.Tree)
}

// count counts the files that differ between two trees. It returns zero if one of the trees was not saved. The commits of the
// operation may be deferred.
func (tx *txn) count(ctx context.Context, a, b segno.Hash) (n segno.Counts, err error) {
	if a.IsZero() || b.IsZero() || a == b {
		return n, nil
	}
	changes, err := tx.diff(ctx, a, b)
	if tx.deferred && errors.Is(err, segno.KindNotFound) {
		return n, nil // replayDeferred counts them
	}
	if err != nil {
		return n, err
	}
	return tx.withLost(ctx, CountChanges(changes), a, b)
}

// withLost counts the files in the directories that are protected in the tree b and were saved in a.
func (tx *txn) withLost(ctx context.Context, n segno.Counts, a, b segno.Hash) (_ segno.Counts, err error) {
	if n.Protected > 0 {
		n.Protected, err = tx.Workspace.Lost(ctx, a, b)
	}
	return n, err
}

// CountChanges counts the files among changes; directories are not files.
func CountChanges(changes []segno.Change) (n segno.Counts) {
	isFile := func(e segno.Entity) bool {
		return e.Type != segno.EntityNone && e.Type != segno.EntityDir && e.Type != segno.EntityDatabase
	}
	for _, c := range changes {
		switch from, to := isFile(c.From), isFile(c.To); {
		case c.To.Why == segno.WhyDatabase || c.From.Why == segno.WhyDatabase: // the database is saved elsewhere
		case c.To.Type == segno.EntityProtected && isSaved(c.From):
			n.Protected++
		case c.From.Type == segno.EntityProtected && c.To.Type == segno.EntityDir:
		case from && to:
			n.Modified++
		case to:
			n.Added++
		case from:
			n.Deleted++
		}
	}
	return n
}

// isSaved reports whether the store contains the entity.
func isSaved(e segno.Entity) bool {
	return e.Type != segno.EntityNone && e.Type != segno.EntityProtected
}

// joinStaged returns the objects and packs of a and b.
func joinStaged(a, b segno.Staged) segno.Staged {
	return segno.Staged{Objects: slices.Concat(a.Objects, b.Objects), Packs: slices.Concat(a.Packs, b.Packs)}
}
