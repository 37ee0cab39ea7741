package timeline

import (
	"context"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

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

// threadState is the head of a thread and the newest checkpoint at or before the head.
type threadState struct {
	head segno.Head
	at   *segno.Checkpoint
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
	tx.waiting = append(tx.waiting, c)
	return threadState{headAfter(&c, head), checkpointOf(&c)}, nil
}

// commitIdempotent is commitOrDefer for a commit that an earlier attempt may have made. If so, it
// keeps that commit and returns the current head of the thread.
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

// checkpointOf returns a commit's checkpoint as the store will return it, except for its sequence
// number.
func checkpointOf(c *segno.Commit) *segno.Checkpoint { return ledger.Checkpoint(c, 0) }

// headAfter returns the head of a thread after a commit.
func headAfter(c *segno.Commit, h segno.Head) segno.Head {
	return ledger.Next(&ledger.Thread{Head: h, Exists: true}, c, h.Turn).Head
}

// threadState returns the present state of a thread.
func (tx *txn) threadState(ctx context.Context, thread segno.ThreadID) (threadState, error) {
	created := slices.ContainsFunc(tx.waiting, func(c segno.Commit) bool { return c.Thread == thread && c.Create != nil })
	head, err := tx.Store.Head(ctx, thread)
	if err != nil && !(created && segno.KindOf(err) == segno.KindNotFound) {
		return threadState{head: head}, err
	}
	for _, c := range tx.waiting {
		if c.Thread == thread {
			head = headAfter(&c, head)
		}
	}
	at, err := tx.checkpoint(ctx, head.Head)
	return threadState{head, at}, err
}

// checkpoint returns the newest checkpoint at or before a commit.
func (tx *txn) checkpoint(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, error) {
	for _, c := range tx.waiting {
		if c.ID == at && c.Checkpoint != nil {
			return checkpointOf(&c), nil
		}
	}
	for n, err := range segno.Ancestors(ctx, tx.Store, at, segno.Window{}) {
		if err != nil {
			return nil, err
		}
		if n.Checkpoint != nil {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "find checkpoint", string(at), nil)
}

// line returns the checkpoints at and before a commit, newest first. It does not include deferred
// commits.
func (tx *txn) line(ctx context.Context, at segno.CommitID) (cs []*segno.Checkpoint, err error) {
	line, err := tx.Store.Load(ctx, at, segno.Window{})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil {
			cs = append(cs, n.Checkpoint)
		}
	}
	return cs, nil
}

// checkpoints yields the checkpoints that a query selects, newest first.
func (tx *txn) checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[*segno.Checkpoint, error] {
	return func(yield func(*segno.Checkpoint, error) bool) {
		for _, c := range slices.Backward(tx.waiting) {
			if cp := checkpointOf(&c); cp != nil && q.Matches(cp) && !yield(cp, nil) {
				return
			}
		}
		for c, err := range tx.Store.Checkpoints(ctx, q) {
			if !yield(&c, err) {
				return
			}
		}
	}
}

// newest returns the newest checkpoint that a query selects, or nil.
func (tx *txn) newest(ctx context.Context, q segno.CheckpointQuery) (*segno.Checkpoint, error) {
	q.Limit = 1
	for c, err := range tx.checkpoints(ctx, q) {
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	return nil, nil
}

// newestTurn returns the newest turn of a session in a thread, or nil.
func (tx *txn) newestTurn(ctx context.Context, thread segno.ThreadID, session segno.SessionID) (*segno.Checkpoint, error) {
	for c, err := range tx.checkpoints(ctx, segno.CheckpointQuery{Thread: thread, Session: session}) {
		if err != nil {
			return nil, err
		}
		if c.Kind == segno.CheckpointTurn {
			return c, nil
		}
	}
	return nil, nil
}

// isKnownLeaf returns a function that reports whether the position of a checkpoint ends at a given
// record of a transcript.
func (tx *txn) isKnownLeaf(ctx context.Context) func(leaf string) bool {
	return func(leaf string) bool {
		c, err := tx.newest(ctx, segno.CheckpointQuery{Leaf: leaf})
		return err == nil && c != nil
	}
}

// threadOf returns the thread with a session in its chain, or "".
func (tx *txn) threadOf(ctx context.Context, session segno.SessionID) (segno.ThreadID, error) {
	if session == "" {
		return "", nil
	}
	for _, c := range tx.waiting {
		if c.Link != nil && c.Link.Session == session {
			return c.Thread, nil
		}
	}
	for t, err := range tx.Store.Threads(ctx, segno.ThreadQuery{Session: session, Limit: 1}) {
		return t.ID, err
	}
	return "", nil
}

// threadOfAgent is threadOf for the session of one agent, because sessions of two agents can have the
// same id.
func (tx *txn) threadOfAgent(ctx context.Context, agent string, session segno.SessionID) (segno.ThreadID, error) {
	isIn := func(l *segno.Link) bool {
		return l != nil && l.Session == session && (l.Agent == agent || l.Agent == "")
	}
	for _, c := range tx.waiting {
		if isIn(c.Link) {
			return c.Thread, nil
		}
	}
	for t, err := range tx.Store.Threads(ctx, segno.ThreadQuery{Session: session}) {
		if err != nil {
			return "", err
		}
		for l, err := range tx.chain(ctx, t.ID) {
			if err != nil || isIn(&l) {
				return t.ID, err
			}
		}
	}
	return "", nil
}

// commitEntries returns the entries of one commit.
func (tx *txn) commitEntries(ctx context.Context, id segno.CommitID) ([]segno.Entry, error) {
	for _, c := range tx.waiting {
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

// operations yields the operations on the workspace, newest first.
func (tx *txn) operations(ctx context.Context) iter.Seq2[segno.Operation, error] {
	if log, ok := tx.Store.(segno.Workspaces); ok {
		return log.Operations(ctx, tx.Workspace.ID())
	}
	return func(func(segno.Operation, error) bool) {}
}

// chain yields the links of a thread, oldest first.
func (tx *txn) chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	if chains, ok := tx.Store.(segno.Chains); ok {
		return chains.Chain(ctx, thread)
	}
	return func(func(segno.Link, error) bool) {}
}
