package sqlstore

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// LeaseRow has the columns of a thread's row that describe the lease.
type LeaseRow struct {
	Thread  segno.ThreadID
	Hidden  bool   // the thread is deleted
	Owner   []byte // sealed; empty if the lease is not held
	Expires int64  // in nanoseconds since 1970, 0 if the lease is not held
	Epoch   uint64
}

// Dest returns the destinations of the columns hidden, owner, expires and epoch.
func (l *LeaseRow) Dest() []any { return []any{&l.Hidden, &l.Owner, &l.Expires, &l.Epoch} }

// readLease reads a lease and the present time. The lease may have expired.
func (c *Common) readLease(ctx context.Context, op string, thread segno.ThreadID) (l segno.Lease, row LeaseRow, now time.Time, err error) {
	row, now, err = c.db.Lease(ctx, op, thread)
	var owner []byte
	if err == nil && len(row.Owner) > 0 {
		owner, err = c.records.Sealer.Open(row.Owner, "lease", string(thread))
		err = c.records.Corrupt(op, string(thread), err)
	}
	return segno.Lease{Thread: thread, Owner: string(owner), Epoch: row.Epoch, Expires: time.Unix(0, row.Expires)}, row, now, err
}

// swapLease replaces a lease, unless another process changed it after it was read as row. Each holder of a lease has
// its own epoch, and each renewal has another end. So epoch and end identify the lease that was read.
func (c *Common) swapLease(ctx context.Context, op string, row LeaseRow, to segno.Lease) (swapped bool, err error) {
	next := LeaseRow{Thread: row.Thread, Epoch: to.Epoch}
	if to.Owner != "" {
		next.Owner = c.records.Sealer.Seal([]byte(to.Owner), "lease", string(row.Thread))
		next.Expires = to.Expires.UnixNano()
	}
	return c.db.Change(ctx, op, string(row.Thread), `UPDATE {}threads SET owner = ?2, expires = ?3, epoch = ?4
		WHERE id = ?1 AND NOT hidden AND coalesce(expires, 0) = ?5 AND epoch = ?6`, c.db.ID(string(row.Thread)), c.db.LeaseOwner(&next),
		next.Expires, int64(next.Epoch), row.Expires, int64(row.Epoch))
}

// Acquire implements [segno.Leaser]. The owner of a lease that has not expired renews it under the same
// epoch, unless l names an older epoch.
func (c *Common) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	name := string(l.Thread)
	for {
		held, row, now, err := c.readLease(ctx, op, l.Thread)
		isHeld := held.Owner != "" && now.Before(held.Expires)
		switch {
		case err != nil && segno.KindOf(err) != segno.KindNotFound:
			return l, err
		case l.Owner == "" || !l.Expires.After(now):
			return l, segno.Errorf(segno.KindInvalid, op, name, "it needs an owner and an end in the future")
		case err != nil:
			return l, err
		case isHeld && held.Owner != l.Owner:
			return l, segno.Errorf(segno.KindBusy, op, name, "it is held by %s", held.Owner)
		case l.Epoch != 0 && l.Epoch < held.Epoch:
			return l, segno.NewError(segno.KindFenced, op, name, nil)
		}
		next := l
		next.Epoch = held.Epoch
		if !isHeld {
			next.Epoch++
		}
		if swapped, err := c.swapLease(ctx, op, row, next); err != nil || swapped {
			return next, err
		}
	}
}

// Release implements [segno.Leaser]. The error is [segno.KindFenced] if the caller does not hold the lease.
func (c *Common) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	for isRetry := false; ; isRetry = true {
		held, row, _, err := c.readLease(ctx, op, l.Thread)
		switch {
		case err != nil:
			return err
		case isRetry && held.Owner == "" && held.Epoch == l.Epoch:
			return nil // an earlier attempt succeeded, but its answer was lost
		case held.Owner != l.Owner || held.Epoch != l.Epoch:
			return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		if swapped, err := c.swapLease(ctx, op, row, segno.Lease{Epoch: l.Epoch}); err != nil || swapped {
			return err
		}
	}
}

// LastHolder returns the owner of the lease on a thread, even if it has expired. It returns "" if the lease was released.
func (c *Common) LastHolder(ctx context.Context, thread segno.ThreadID) (string, error) {
	l, _, _, err := c.readLease(ctx, "read lease", thread)
	return l.Owner, err
}

// LeaseOf implements [segno.Leaser].
func (c *Common) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	l, _, now, err := c.readLease(ctx, "read lease", thread)
	if err != nil || l.Owner == "" || !now.Before(l.Expires) {
		return segno.Lease{}, err
	}
	return l, nil
}
