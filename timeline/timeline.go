package timeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Config has the parts of a [Timeline].
type Config struct {
	Store       segno.Store
	Workspace   segno.Workspace
	Transcripts map[string]segno.Transcript // by agent; an agent without one has no session tier
	Spool       Spool
	Now         func() time.Time
	// Alive reports whether the process pid that started at start still runs; see [Process].
	Alive func(pid int, start string) bool
	// Register records the directory of a fork as a workspace. Only Fork needs it.
	Register func(ctx context.Context, dir string) (segno.WorkspaceRecord, error)
	// Lease is the right to write to one thread. Commits to it carry the lease's
	// epoch: once another writer holds the lease, they fail with [segno.KindFenced].
	Lease segno.Lease
}

// Timeline records the turns of agents in one workspace and moves between their
// checkpoints. All methods may be called at once, from many goroutines and many
// processes: those that change something hold the workspace's lock. The state between
// two calls is in the store and the spool.
type Timeline struct{ Config }

// SaveTurn returns the timeline of a workspace. It reads and writes nothing.
func Open(c Config) *Timeline { return &Timeline{c} }

// WithLease returns a timeline that commits to the lease's thread with the lease's epoch.
func (tl *Timeline) WithLease(l segno.Lease) *Timeline {
	c := tl.Config
	c.Lease = l
	return Open(c)
}

// txn is one operation on a timeline.
type txn struct {
	*Timeline
	unlock func()
	// turns are the open turns of all workspaces, oldest first. The methods that change a
	// turn in the spool change it here, too.
	turns []OpenTurn
	// deferred is set once the store was busy: this operation then writes its commits to the
	// spool. waiting are all commits there, also those of earlier operations, oldest first.
	// Objects of such commits cannot be read yet.
	deferred bool
	waiting  []segno.Commit
	// pendingErr is why work that an earlier process left cannot be completed. Turns are recorded
	// all the same.
	pendingErr error
}

// unlocked starts an operation that holds no lock.
func (tl *Timeline) unlocked() *txn { return &txn{Timeline: tl, unlock: func() {}} }

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

// prepareMove locks the workspace, applies deferred commits and completes an
// interrupted move. Each must succeed, because a move plans from the state of the store.
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

// prepareRecord is prepareMove for an operation that must not lose a turn. If the
// store is busy, its commits are deferred. Any other failure of an earlier operation is
// kept in pendingErr.
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

// CompletePending applies deferred commits and completes an interrupted move, as every
// other method does first. Without either it takes no lock.
func (tl *Timeline) CompletePending(ctx context.Context) error {
	plan, err := tl.Spool.ReadPlan(ctx, tl.Workspace.ID())
	if err != nil {
		return err
	}
	waiting, err := tl.Spool.ListDeferred(ctx)
	if err != nil || plan == nil && len(waiting) == 0 {
		return err
	}
	tx, err := tl.prepareMove(ctx)
	if err == nil {
		tx.unlock()
	}
	return err
}

// loadTurns reads the open turns.
func (tx *txn) loadTurns(ctx context.Context) (err error) {
	tx.turns, err = tx.Spool.Turns(ctx)
	return err
}

// openTurn returns an open turn as it is now, and whether it is still open. The end of one
// turn may amend the checkpoint that another one began on or ended with.
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

// replaceTurn replaces a turn in tx.turns, or removes it. It changes no slice that a
// loop over tx.turns may use.
func (tx *txn) replaceTurn(key segno.TurnKey, by ...OpenTurn) {
	i := slices.IndexFunc(tx.turns, func(t OpenTurn) bool { return t.Key == key })
	if i < 0 {
		i = len(tx.turns)
	}
	tx.turns = slices.Concat(tx.turns[:i], by, tx.turns[min(i+1, len(tx.turns)):])
}
