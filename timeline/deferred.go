package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
)

// deferredCommits is the commits of a [Timeline] that wait for a store whose writer was not
// to be had in time. While there are any, what follows waits behind them, and the
// threads stand where they will stand once all have landed.
type deferredCommits struct {
	behind  bool
	waiting []segno.Commit
}

// deferCommits makes this operation defer its commits, after those deferred already.
func (tx *txn) deferCommits(ctx context.Context) (err error) {
	tx.queue.behind, tx.late = true, true
	tx.queue.waiting, err = tx.Spool.Waiting(ctx)
	return err
}

// commitOrDefer lands a commit, or defers it if the store is busy, and returns where the
// thread stands then and the commit's checkpoint, if it has one.
func (tx *txn) commitOrDefer(ctx context.Context, head segno.Head, c segno.Commit) (segno.Head, *segno.Checkpoint, error) {
	if !tx.queue.behind {
		next, err := tx.commitRetryingCAS(ctx, c)
		if err == nil {
			return next, checkpointOf(&c), nil
		}
		if segno.KindOf(err) != segno.KindBusy {
			return head, nil, err
		}
		if err := tx.deferCommits(ctx); err != nil {
			return head, nil, err
		}
	}
	if err := tx.Spool.Defer(ctx, []segno.Commit{c}); err != nil {
		return head, nil, err
	}
	tx.queue.waiting = append(tx.queue.waiting, c)
	return headAfter(&c, head), checkpointOf(&c), nil
}

// commitIdempotent is put for a commit that an earlier try may have made: then it is left
// as it is, and the thread stands where that try left it.
func (tx *txn) commitIdempotent(ctx context.Context, head segno.Head, c segno.Commit) (segno.Head, *segno.Checkpoint, error) {
	at, err := tx.checkpointWithDeferred(ctx, c.ID)
	if segno.KindOf(err) == segno.KindNotFound {
		return tx.commitOrDefer(ctx, head, c)
	}
	if err != nil {
		return head, nil, err
	}
	// What this try staged is for the commits that follow.
	if err := tx.keepStaged(ctx, c.Staged); err != nil {
		return head, nil, err
	}
	return tx.headAndCheckpoint(ctx, at.Thread)
}

// checkpointOf returns a commit's checkpoint as the store will have it, except for its
// sequence number.
func checkpointOf(c *segno.Commit) *segno.Checkpoint { return ledger.Checkpoint(c, 0) }

// headAfter returns the head of a thread after a commit.
func headAfter(c *segno.Commit, h segno.Head) segno.Head {
	return ledger.Next(&ledger.Thread{Head: h, Exists: true}, c, h.Turn).Head
}

// headAndCheckpoint returns where a thread stands, deferred commits included.
func (tx *txn) headAndCheckpoint(ctx context.Context, thread segno.ThreadID) (segno.Head, *segno.Checkpoint, error) {
	created := slices.ContainsFunc(tx.queue.waiting, func(c segno.Commit) bool { return c.Thread == thread && c.Create != nil })
	head, err := tx.Store.Head(ctx, thread)
	if err != nil && !(created && segno.KindOf(err) == segno.KindNotFound) {
		return head, nil, err
	}
	for _, c := range tx.queue.waiting {
		if c.Thread == thread {
			head = headAfter(&c, head)
		}
	}
	at, err := tx.checkpointWithDeferred(ctx, head.Head)
	return head, at, err
}

// checkpointWithDeferred is [txn.checkpoint], deferred commits included.
func (tx *txn) checkpointWithDeferred(ctx context.Context, id segno.CommitID) (*segno.Checkpoint, error) {
	for _, c := range tx.queue.waiting {
		if c.ID == id && c.Checkpoint != nil {
			return checkpointOf(&c), nil
		}
	}
	return tx.checkpoint(ctx, id)
}

// threadWithDeferred is [txn.threadOf], deferred commits included.
func (tx *txn) threadWithDeferred(ctx context.Context, session segno.SessionID) (segno.ThreadID, error) {
	for _, c := range tx.queue.waiting {
		if session != "" && c.Link != nil && c.Link.Session == session {
			return c.Thread, nil
		}
	}
	return tx.threadOf(ctx, session)
}

// endOfTurn returns the newest checkpoint that ends a turn of a session, deferred ones
// included, or nil. The key alone is not enough: it comes from outside.
func (tx *txn) endOfTurn(ctx context.Context, key segno.TurnKey, session segno.SessionID) (*segno.Checkpoint, error) {
	of := func(c *segno.Checkpoint) bool {
		return c != nil && c.Key == key && c.Session != nil && c.Session.Session == session
	}
	for _, c := range slices.Backward(tx.queue.waiting) {
		if of(c.Checkpoint) {
			return checkpointOf(&c), nil
		}
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Key: key}) {
		if err != nil {
			return nil, err
		}
		if of(&c) {
			return &c, nil
		}
	}
	return nil, nil
}

// commitEntries returns a commit's own entries, a deferred one's too.
func (tx *txn) commitEntries(ctx context.Context, id segno.CommitID) ([]segno.Entry, error) {
	for _, c := range tx.queue.waiting {
		if c.ID == id {
			return c.Entries, nil
		}
	}
	line, err := tx.Store.Load(ctx, id, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return nil, err
	}
	return line.Commits[len(line.Commits)-1].Entries, nil
}

// keepOrHold makes staged objects durable; if the store is busy the open turn keeps
// them until it ends.
func (tx *txn) keepOrHold(ctx context.Context, staged segno.Staged, turn *OpenTurn) error {
	if !tx.queue.behind {
		err := tx.keepStaged(ctx, staged)
		if segno.KindOf(err) != segno.KindBusy {
			return err
		}
	}
	turn.Staged = staged
	return nil
}

// newestOfSession returns the newest checkpoint whose session tier is a session, deferred
// ones included, or nil.
func (tx *txn) newestOfSession(ctx context.Context, session segno.SessionID) (*segno.Checkpoint, error) {
	for _, c := range slices.Backward(tx.queue.waiting) {
		if c.Checkpoint != nil && c.Checkpoint.Session != nil && c.Checkpoint.Session.Session == session {
			return checkpointOf(&c), nil
		}
	}
	return tx.first(ctx, segno.CheckpointQuery{Session: session})
}

// isKnownLeaf reports whether some checkpoint's position ends at a record.
func (tx *txn) isKnownLeaf(ctx context.Context, leaf string) bool {
	for _, c := range tx.queue.waiting {
		if c.Checkpoint != nil && c.Checkpoint.Session != nil && c.Checkpoint.Session.Leaf == leaf {
			return true
		}
	}
	c, err := tx.first(ctx, segno.CheckpointQuery{Leaf: leaf})
	return err == nil && c != nil
}
