package timeline

import (
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
)

// replayDeferred applies deferred commits, in order, and counts their files, which could not
// be read before.
func (tx *txn) replayDeferred(ctx context.Context) error {
	return tx.Spool.Deferred(ctx, func(c segno.Commit) error {
		if c.Checkpoint != nil {
			if _, err := tx.Store.Load(ctx, c.ID, segno.Window{Last: 1}); segno.KindOf(err) != segno.KindNotFound {
				return err // it landed, and the process ended before it was forgotten
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

// commitRetryingCAS commits c. If another writer moved the head meanwhile, c begins a new line
// at its parent, so that no turn is lost.
func (tx *txn) commitRetryingCAS(ctx context.Context, c segno.Commit) (segno.Head, error) {
	held := tx.Lease.Epoch != 0 && tx.Lease.Thread == c.Thread
	for {
		if held {
			c.Epoch = tx.Lease.Epoch
		}
		head, err := tx.Store.Commit(ctx, c)
		if segno.KindOf(err) == segno.KindFenced && !held {
			// A lease was taken since the head was read. It fences other holders of the
			// lease only; a writer without a lease compares heads.
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
		c.Expect, c.Epoch = late.Actual.Head, late.Actual.Epoch
		if c.Checkpoint != nil && c.Checkpoint.Kind == segno.CheckpointTurn && c.Checkpoint.Amends == "" {
			renumber(&c, late.Actual.Turn+1)
		}
	}
}

func renumber(c *segno.Commit, turn int) {
	c.Checkpoint.Turn = turn
	for i := range c.Entries {
		c.Entries[i].Turn = turn
	}
}

// checkpoint returns the newest checkpoint at or above a commit.
func (tx *txn) checkpoint(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, error) {
	for last := 1; ; last *= 8 {
		line, err := tx.Store.Load(ctx, at, segno.Window{Last: last})
		if err != nil {
			return nil, err
		}
		for i := len(line.Commits) - 1; i >= 0; i-- {
			if c := line.Commits[i].Checkpoint; c != nil {
				return c, nil
			}
		}
		if len(line.Commits) < last {
			return nil, segno.NewError(segno.KindNotFound, "find checkpoint", string(at), nil)
		}
	}
}

// line returns the checkpoints at and above a commit, newest first.
func (tx *txn) line(ctx context.Context, at segno.CommitID) ([]*segno.Checkpoint, error) {
	line, err := tx.Store.Load(ctx, at, segno.Window{})
	if err != nil {
		return nil, err
	}
	var cs []*segno.Checkpoint
	for i := len(line.Commits) - 1; i >= 0; i-- {
		if c := line.Commits[i].Checkpoint; c != nil {
			cs = append(cs, c)
		}
	}
	return cs, nil
}

// threadOf returns the thread whose chain holds a session, or "".
func (tx *txn) threadOf(ctx context.Context, session segno.SessionID) (segno.ThreadID, error) {
	if session == "" {
		return "", nil
	}
	for t, err := range tx.Store.Threads(ctx, segno.ThreadQuery{Session: session, Limit: 1}) {
		return t.ID, err
	}
	return "", nil
}

// first returns the newest checkpoint a query finds, or nil.
func (tx *txn) first(ctx context.Context, q segno.CheckpointQuery) (*segno.Checkpoint, error) {
	q.Limit = 1
	for c, err := range tx.Store.Checkpoints(ctx, q) {
		if err != nil {
			return nil, err
		}
		return &c, nil
	}
	return nil, nil
}

// workspaceStateAfter is what the workspace holds once a commit left it so.
func (tx *txn) workspaceStateAfter(thread segno.ThreadID, by segno.CommitID, snap *segno.Snapshot) *segno.WorkspaceState {
	return &segno.WorkspaceState{Workspace: tx.Workspace.ID(), Thread: thread, Snapshot: snap, By: by, Time: tx.Now()}
}

// CountFiles counts the files that differ between two trees. The count is zero if one of
// them was not saved.
func (tl *Timeline) CountFiles(ctx context.Context, a, b segno.Hash) (segno.Counts, error) {
	return tl.begin().count(ctx, a, b)
}

// count is [Timeline.CountFiles] where commits may still be deferred.
func (tx *txn) count(ctx context.Context, a, b segno.Hash) (segno.Counts, error) {
	if a.IsZero() || b.IsZero() || a == b {
		return segno.Counts{}, nil
	}
	changes, err := tx.Workspace.Diff(ctx, a, b)
	if tx.late && segno.KindOf(err) == segno.KindNotFound {
		return segno.Counts{}, nil // counted when it lands
	}
	if err != nil {
		return segno.Counts{}, err
	}
	n := CountChanges(changes)
	n.Protected, err = tx.countUnsaved(ctx, a, b, changes)
	return n, err
}

// CountChanges counts the files among changes; directories are not files.
func CountChanges(changes []segno.Change) (n segno.Counts) {
	isFile := func(e segno.Entity) bool { return e.Type != segno.EntityNone && e.Type != segno.EntityDir }
	for _, c := range changes {
		switch from, to := isFile(c.From), isFile(c.To); {
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

// joinStaged returns the objects and packs of both.
func joinStaged(a, b segno.Staged) segno.Staged {
	return segno.Staged{Objects: slices.Concat(a.Objects, b.Objects), Packs: slices.Concat(a.Packs, b.Packs)}
}
