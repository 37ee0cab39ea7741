package timeline

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
)

// Config is what a [Timeline] works with.
type Config struct {
	Store       segno.Store
	Workspace   segno.Workspace
	Transcripts map[string]segno.Transcript // by agent; an agent without one has no session tier
	Spool       Spool
	Journal     Journal
	Now         func() time.Time
	// Alive reports whether a process still runs: pid, and what [OpenTurn] has
	// of its start.
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

// Open returns the timeline of a workspace. It reads and writes nothing.
func Open(c Config) *Timeline { return &Timeline{c} }

// WithLease returns a timeline whose commits to the lease's thread carry its epoch.
func (tl *Timeline) WithLease(l segno.Lease) *Timeline {
	c := tl.Config
	c.Lease = l
	return Open(c)
}

// txn is one operation on a timeline.
type txn struct {
	*Timeline
	unlock func()
	// queue holds the commits that this operation could not apply, because the store
	// is busy.
	queue deferredCommits
	// stuck is what an earlier process left undone and why it cannot be completed.
	// Recording goes on all the same.
	stuck error
	late  bool // commits are deferred, so that their objects cannot be read yet
}

// begin starts an operation that holds no lock.
func (tl *Timeline) begin() *txn { return &txn{Timeline: tl, unlock: func() {}} }

// lock starts an operation that holds the workspace's lock.
func (tl *Timeline) lock(ctx context.Context) (x *txn, err error) {
	x = tl.begin()
	x.unlock, err = tl.Journal.Lock(ctx, tl.Workspace.ID())
	return x, err
}

// lockForMove locks the workspace, applies deferred commits and completes an
// interrupted move. Each must succeed: a move plans from what the store holds.
func (tl *Timeline) lockForMove(ctx context.Context) (*txn, error) {
	tx, err := tl.lock(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{tx.replayDeferred, tx.completeMove, tx.coverTurns} {
		if err := step(ctx); err != nil {
			tx.unlock()
			return nil, err
		}
	}
	return tx, nil
}

// lockForRecord is lockForMove for an operation that must not lose a turn. If the
// store is busy, its commits are deferred. What cannot be completed is reported in
// stuck.
func (tl *Timeline) lockForRecord(ctx context.Context) (*txn, error) {
	tx, err := tl.lock(ctx)
	if err != nil {
		return nil, err
	}
	switch err := tx.replayDeferred(ctx); {
	case segno.KindOf(err) == segno.KindBusy:
		if err := tx.deferCommits(ctx); err != nil {
			tx.unlock()
			return nil, err
		}
	case segno.KindOf(err) == segno.KindCancelled:
		tx.unlock()
		return nil, err
	case err != nil:
		tx.stuck = err
	}
	for _, step := range []func(context.Context) error{tx.completeMove, tx.coverTurns} {
		err := step(ctx)
		if segno.KindOf(err) == segno.KindCancelled {
			tx.unlock()
			return nil, err
		}
		tx.stuck = errors.Join(tx.stuck, err)
	}
	return tx, nil
}

// CompletePending applies deferred commits and completes an interrupted move, as every
// other method does first.
func (tl *Timeline) CompletePending(ctx context.Context) error {
	tx, err := tl.lockForMove(ctx)
	if err != nil {
		return err
	}
	tx.unlock()
	return nil
}
