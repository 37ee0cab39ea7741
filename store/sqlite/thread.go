package sqlite

import (
	"context"
	"errors"
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
		r, err := tx.exec(ctx, `UPDATE threads SET hidden = 1 WHERE id = ? AND NOT hidden`, string(thread))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, notFound(op, string(thread)))
		}
		_, err = tx.exec(ctx, `DELETE FROM phases WHERE phase IN `+allPhases+` AND id = ?`, string(thread))
		return err
	})
	s.watch.bells.Ring(thread)
	return err
}

// Acquire implements [segno.Leaser]. The owner of a lease that has not expired
// renews it under the epoch it has, unless l names an older one.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	if l.Owner == "" || !l.Expires.After(s.options.Clock()) {
		return l, &segno.Error{Op: op, Name: string(l.Thread), Kind: segno.KindInvalid, Err: errors.New("it needs an owner and an end in the future")}
	}
	err := s.write(ctx, op, string(l.Thread), func(ctx context.Context, tx *conn) error {
		owner, expires, epoch, err := s.lease(ctx, tx, op, l.Thread)
		if err != nil {
			return err
		}
		held := owner != "" && s.options.Clock().Before(expires)
		switch {
		case held && owner != l.Owner:
			return &segno.Error{Op: op, Name: string(l.Thread), Kind: segno.KindBusy, Err: errors.New("it is held by " + owner)}
		case l.Epoch != 0 && l.Epoch < epoch:
			return &segno.Error{Op: op, Name: string(l.Thread), Kind: segno.KindFenced}
		case !held:
			epoch++
		}
		l.Epoch = epoch
		_, err = tx.exec(ctx, `UPDATE threads SET owner = ?, expires = ?, epoch = ? WHERE id = ?`,
			s.text(l.Owner, "lease", string(l.Thread)), l.Expires.UnixNano(), int64(epoch), string(l.Thread))
		return err
	})
	return l, err
}

// Release implements [segno.Leaser]. Giving up what one does not hold is
// [segno.KindFenced].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	return s.write(ctx, op, string(l.Thread), func(ctx context.Context, tx *conn) error {
		owner, _, epoch, err := s.lease(ctx, tx, op, l.Thread)
		if err != nil {
			return err
		}
		if owner != l.Owner || epoch != l.Epoch {
			return &segno.Error{Op: op, Name: string(l.Thread), Kind: segno.KindFenced}
		}
		_, err = tx.exec(ctx, `UPDATE threads SET owner = '', expires = 0 WHERE id = ?`, string(l.Thread))
		return err
	})
}

// Held implements [segno.Leaser].
func (s *Store) Held(ctx context.Context, thread segno.ThreadID) (l segno.Lease, err error) {
	const op = "read lease"
	err = s.read(ctx, op, string(thread), func(ctx context.Context, tx *conn) error {
		owner, expires, epoch, err := s.lease(ctx, tx, op, thread)
		if err == nil && owner != "" && s.options.Clock().Before(expires) {
			l = segno.Lease{Thread: thread, Owner: owner, Epoch: epoch, Expires: expires}
		}
		return err
	})
	return l, err
}

func (s *Store) lease(ctx context.Context, tx *conn, op string, thread segno.ThreadID) (owner string, expires time.Time, epoch uint64, err error) {
	var ns int64
	found, err := tx.row(ctx, `SELECT owner, expires, epoch FROM threads WHERE id = ? AND NOT hidden`,
		[]any{string(thread)}, &owner, &ns, &epoch)
	if err == nil && !found {
		err = notFound(op, string(thread))
	}
	if err == nil && owner != "" && s.seal != nil {
		open, errOpen := s.seal.Open([]byte(owner), "lease", string(thread))
		owner, err = string(open), damaged(op, string(thread), errOpen)
	}
	return owner, time.Unix(0, ns), epoch, err
}
