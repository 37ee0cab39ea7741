package sqlite

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	return s.head(ctx, thread, s.read)
}

// reading is how something is read: see read and readApart.
type reading func(ctx context.Context, op, name string, f func(ctx context.Context, c *conn) error) error

func (s *Store) head(ctx context.Context, thread segno.ThreadID, read reading) (head segno.Head, err error) {
	const op = "read head"
	err = read(ctx, op, string(thread), func(ctx context.Context, c *conn) error {
		t, err := s.verifiedThread(ctx, c, thread)
		if err != nil {
			return err
		}
		if t == nil || t.hidden {
			return notFound(op, string(thread))
		}
		head = t.Head
		return nil
	})
	return head, err
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	err := s.write(ctx, op, string(thread), func(ctx context.Context, tx *conn) error {
		l, err := s.lease(ctx, tx, op, thread)
		if err != nil {
			return err
		}
		l.hidden = true
		if _, err := tx.exec(ctx, `UPDATE threads SET hidden = 1, owner = ? WHERE id = ?`, l.column(), string(thread)); err != nil {
			return err
		}
		_, err = tx.exec(ctx, `DELETE FROM phases WHERE phase IN `+allPhases+` AND id = ?`, string(thread))
		return err
	})
	s.watch.notifier.Notify(thread)
	return err
}

// Acquire implements [segno.Leaser]. The owner of a lease that has not expired
// renews it under the epoch it has, unless l names an older one.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	if l.Owner == "" || !l.Expires.After(s.options.Clock()) {
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "it needs an owner and an end in the future")
	}
	err := s.write(ctx, op, string(l.Thread), func(ctx context.Context, tx *conn) error {
		row, owner, err := s.openLease(ctx, tx, op, l.Thread)
		if err != nil {
			return err
		}
		held, epoch := owner != "" && s.options.Clock().Before(time.Unix(0, row.expires)), row.epoch
		switch {
		case held && owner != l.Owner:
			return segno.Errorf(segno.KindBusy, op, string(l.Thread), "%s", "it is held by "+owner)
		case l.Epoch != 0 && l.Epoch < epoch:
			return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		case !held:
			epoch++
		}
		l.Epoch = epoch
		return s.putLease(ctx, tx, l)
	})
	return l, err
}

// Release implements [segno.Leaser]. Giving up what one does not hold is
// [segno.KindFenced].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	return s.write(ctx, op, string(l.Thread), func(ctx context.Context, tx *conn) error {
		row, owner, err := s.openLease(ctx, tx, op, l.Thread)
		if err != nil {
			return err
		}
		if owner != l.Owner || row.epoch != l.Epoch {
			return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		return s.putLease(ctx, tx, segno.Lease{Thread: l.Thread, Epoch: l.Epoch, Expires: time.Unix(0, 0)})
	})
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (l segno.Lease, err error) {
	const op = "read lease"
	err = s.read(ctx, op, string(thread), func(ctx context.Context, tx *conn) error {
		row, owner, err := s.openLease(ctx, tx, op, thread)
		if expires := time.Unix(0, row.expires); err == nil && owner != "" && s.options.Clock().Before(expires) {
			l = segno.Lease{Thread: thread, Owner: owner, Epoch: row.epoch, Expires: expires}
		}
		return err
	})
	return l, err
}

// lease reads the lease of a thread that is not hidden.
func (s *Store) lease(ctx context.Context, tx *conn, op string, thread segno.ThreadID) (*leaseRow, error) {
	l := &leaseRow{thread: thread}
	found, err := tx.row(ctx, `SELECT hidden, owner, expires, epoch FROM threads WHERE id = ?`, []any{string(thread)}, &l.hidden, &l.owner, &l.expires, &l.epoch)
	if err == nil && found {
		err = l.check(op, s.seal != nil)
	} else if err == nil {
		err = missed(ctx, tx, op, "threads", string(thread))
	}
	if err == nil && (!found || l.hidden) {
		err = notFound(op, string(thread))
	}
	return l, err
}

// openLease is lease with the owner as it was given.
func (s *Store) openLease(ctx context.Context, tx *conn, op string, thread segno.ThreadID) (*leaseRow, string, error) {
	l, err := s.lease(ctx, tx, op, thread)
	owner := l.owner
	if err == nil && len(owner) > 0 && s.seal != nil {
		owner, err = s.seal.Open(owner, "lease", string(thread))
		err = damaged(op, string(thread), err)
	}
	return l, string(owner), err
}

// putLease writes a lease; one without an owner is none.
func (s *Store) putLease(ctx context.Context, tx *conn, l segno.Lease) error {
	row := leaseRow{thread: l.Thread, owner: []byte(l.Owner), expires: l.Expires.UnixNano(), epoch: l.Epoch}
	if l.Owner != "" && s.seal != nil {
		row.owner = s.seal.Seal(row.owner, "lease", string(l.Thread))
	}
	_, err := tx.exec(ctx, `UPDATE threads SET owner = ?, expires = ?, epoch = ? WHERE id = ?`, row.column(), row.expires, int64(l.Epoch), string(l.Thread))
	return err
}
