package timeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Config has the store and the workspace of a [Timeline], and what it needs from its process.
type Config struct {
	Store       segno.Store
	Workspace   segno.Workspace
	Transcripts map[string]segno.Transcript // by agent; an agent without one has no session tier
	Spool       Spool
	Now         func() time.Time
	// Alive reports whether the process of an open turn still runs; see [Process]. It is called only if the process is known.
	Alive func(t OpenTurn) bool
	// Register records the directory of a fork as a workspace. Only Fork needs it.
	Register func(ctx context.Context, dir string) (segno.WorkspaceRecord, error)
	// Lease is the right to write to one thread. Commits to that thread contain the lease's
	// epoch. Once another writer holds the lease, they fail with [segno.KindFenced].
	Lease segno.Lease
	// Actor is the actor of the operations that this timeline records; see [segno.Operation].
	Actor string
	// Untrusted, if not nil, returns the files that no move and no fork may write. Both then have [segno.KindRefused] with an
	// [UntrustedError].
	Untrusted func(ctx context.Context) ([]Untrusted, error)
}

// Timeline records the turns of agents in one workspace and moves between their checkpoints.
// All methods may be called concurrently, by many goroutines and many processes: the methods
// that begin or end a turn, move, or write files hold the workspace's lock. A method on
// sessions alone holds the lock of sessions. AppendEntry and EndSteps only change the file of one turn
// in the spool, and MoveHead relies on the compare-and-swap of the head. Between two calls, all state
// is in the store and the spool.
type Timeline struct{ Config }

// Open returns the timeline of a workspace. It reads and writes nothing.
func Open(c Config) *Timeline { return &Timeline{c} }

// WithLease returns a timeline whose commits to the lease's thread contain the lease's epoch.
func (tl *Timeline) WithLease(l segno.Lease) *Timeline {
	c := tl.Config
	c.Lease = l
	return Open(c)
}

// WithActor returns a timeline whose operations record the actor.
func (tl *Timeline) WithActor(actor string) *Timeline {
	c := tl.Config
	c.Actor = actor
	return Open(c)
}

// txn is one operation on a timeline.
type txn struct {
	*Timeline
	overlay
	unlock func()
	// turns are the open turns of all workspaces, oldest first. A method that changes a turn in
	// the spool also changes it here.
	turns []OpenTurn
	// completed is the plan of a move that an earlier process began and that this operation has completed, or nil.
	completed *Plan
	// pendingErr is the reason why work that an earlier process left cannot be completed. Turns
	// are still recorded.
	pendingErr error
}

// unlocked starts an operation that holds no lock.
func (tl *Timeline) unlocked() *txn {
	return &txn{Timeline: tl, overlay: overlay{store: tl.Store}, unlock: func() {}}
}

// lock starts an operation that holds the workspace's lock and runs steps. It unlocks if a
// step fails.
func (tl *Timeline) lock(ctx context.Context, steps func(tx *txn) error) (*txn, error) {
	tx := tl.unlocked()
	unlock, err := tl.Spool.Lock(ctx, tl.Workspace.ID())
	if err != nil {
		return nil, err
	}
	tx.unlock = unlock
	if err = tx.loadTurns(ctx); err == nil {
		err = steps(tx)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return tx, nil
}

// prepareMove locks the workspace, applies deferred commits and completes an interrupted move.
// It returns an error if one of these fails, because a move is planned from the state of the
// store.
func (tl *Timeline) prepareMove(ctx context.Context) (*txn, error) {
	return tl.lock(ctx, func(tx *txn) error {
		err := tx.replayDeferred(ctx)
		if err == nil {
			err = tx.completeMove(ctx)
		}
		if err == nil {
			err = tx.coverTurns(ctx)
		}
		return err
	})
}

// prepareRecord is prepareMove for an operation that must not lose a turn. If the store is
// busy, the operation defers its commits. pendingErr keeps any other failure to complete an
// earlier operation.
func (tl *Timeline) prepareRecord(ctx context.Context) (*txn, error) {
	return tl.lock(ctx, func(tx *txn) error {
		err := tx.replayDeferred(ctx)
		if segno.KindOf(err) == segno.KindBusy {
			if err := tx.deferCommits(ctx); err != nil {
				return err
			}
			err = nil
		}
		for _, step := range []func(context.Context) error{tx.completeMove, tx.coverTurns} {
			if segno.KindOf(err) == segno.KindCancelled {
				return err
			}
			tx.pendingErr = errors.Join(tx.pendingErr, err)
			err = step(ctx)
		}
		if segno.KindOf(err) == segno.KindCancelled {
			return err
		}
		tx.pendingErr = errors.Join(tx.pendingErr, err)
		return nil
	})
}

// CompletePending applies deferred commits and completes an interrupted move. Every method that moves
// or records in the workspace does the same at its start. If there is nothing to complete, it takes no lock.
// It returns the plan of the move that it completed, or nil: before the caller makes another move, it calls [Plan.CheckRepeated].
func (tl *Timeline) CompletePending(ctx context.Context) (completed *Plan, err error) {
	plan, err := tl.Spool.ReadPlan(ctx, tl.Workspace.ID())
	if err != nil {
		return nil, err
	}
	waiting, err := tl.Spool.ListDeferred(ctx)
	if err != nil || plan == nil && len(waiting) == 0 {
		return nil, err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	return tx.completed, nil
}

// loadTurns reads the open turns.
func (tx *txn) loadTurns(ctx context.Context) (err error) {
	tx.turns, err = tx.Spool.Turns(ctx)
	return err
}

// openTurn returns an open turn as it is now, and whether it is still open. The copy of a
// caller may be outdated, because the end of one turn may amend the checkpoint that another one
// began on or ended with.
func (tx *txn) openTurn(key segno.TurnKey) (t OpenTurn, open bool) {
	i := slices.IndexFunc(tx.turns, func(t OpenTurn) bool { return t.Key == key })
	if i < 0 {
		return t, false
	}
	return tx.turns[i], true
}

// saveTurn makes an open turn durable.
func (tx *txn) saveTurn(ctx context.Context, t OpenTurn) error {
	tx.replaceTurn(t.Key, t)
	return tx.Spool.SaveTurn(ctx, t)
}

// closeTurn deletes an open turn.
func (tx *txn) closeTurn(ctx context.Context, key segno.TurnKey) error {
	tx.replaceTurn(key)
	return tx.Spool.DeleteTurn(ctx, key)
}

// replaceTurn replaces a turn in tx.turns, or removes it. It makes a new slice, because a loop
// over tx.turns may use the old one.
func (tx *txn) replaceTurn(key segno.TurnKey, by ...OpenTurn) {
	i := slices.IndexFunc(tx.turns, func(t OpenTurn) bool { return t.Key == key })
	if i < 0 {
		i = len(tx.turns)
	}
	tx.turns = slices.Concat(tx.turns[:i], by, tx.turns[min(i+1, len(tx.turns)):])
}
