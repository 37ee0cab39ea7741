package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
)

// serverNow is the server's clock in nanoseconds, where Options.Clock gives none ($1).
const serverNow = `coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000)`

// leaseNow is the parameter of serverNow.
func (s *Store) leaseNow() *int64 {
	if s.options.Clock == nil {
		return nil
	}
	now := s.options.Clock().UnixNano()
	return &now
}

// Acquire implements [segno.Leaser]. The owner of a lease that has not expired renews it
// under the epoch it has, unless l names an older one.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	if l.Owner == "" {
		return l, invalid(op, string(l.Thread), errors.New("it needs an owner"))
	}
	// Asked twice after a lost connection it renews what it got.
	var epoch uint64
	err := s.row(ctx, op, string(l.Thread), `UPDATE {}threads SET owner = $3, expires = $4,
			epoch = epoch + CASE WHEN owner IS NOT NULL AND expires > `+serverNow+` THEN 0 ELSE 1 END
		WHERE id = $2 AND NOT hidden AND $4::bigint > `+serverNow+` AND ($5::bigint = 0 OR $5 >= epoch)
			AND (owner IS NULL OR owner = $3 OR expires <= `+serverNow+`)
		RETURNING epoch`, []any{s.leaseNow(), []byte(l.Thread), s.owner(l), l.Expires.UnixNano(), int64(l.Epoch)}, &epoch)
	if err == nil {
		l.Epoch = epoch
		return l, nil
	}
	if segno.KindOf(err) != segno.KindNotFound {
		return l, err
	}
	held, now, err := s.lease(ctx, op, l.Thread)
	switch {
	case err != nil && segno.KindOf(err) != segno.KindNotFound:
		return l, err
	case !l.Expires.After(now):
		return l, invalid(op, string(l.Thread), errors.New("it needs an end in the future"))
	case err != nil:
		return l, err
	case l.Epoch != 0 && l.Epoch < held.Epoch && (held.Owner == "" || held.Owner == l.Owner || !now.Before(held.Expires)):
		return l, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
	}
	return l, segno.Errorf(segno.KindBusy, op, string(l.Thread), "%s", "it is held by "+held.Owner)
}

// Release implements [segno.Leaser]. Giving up what one does not hold is
// [segno.KindFenced].
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	released, err := s.change(ctx, op, string(l.Thread), `UPDATE {}threads SET owner = NULL, expires = NULL
		WHERE id = $1 AND NOT hidden AND owner = $2 AND epoch = $3`, []byte(l.Thread), s.owner(l), int64(l.Epoch))
	if err != nil || released {
		return err
	}
	if _, _, err := s.lease(ctx, op, l.Thread); err != nil {
		return err
	}
	return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
}

// owner is who holds a lease, as statements compare it.
func (s *Store) owner(l segno.Lease) []byte {
	return s.seal.Same([]byte(l.Owner), "lease", string(l.Thread))
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	l, now, err := s.lease(ctx, "read lease", thread)
	if err != nil || l.Owner == "" || !now.Before(l.Expires) {
		return segno.Lease{}, err
	}
	return l, nil
}

// lease reads what is written of a thread's lease, and what time it is.
func (s *Store) lease(ctx context.Context, op string, thread segno.ThreadID) (l segno.Lease, now time.Time, err error) {
	var owner []byte
	var expires *int64
	var epoch, clock *int64
	err = s.row(ctx, op, string(thread), `SELECT t.owner, t.expires, t.epoch, `+serverNow+`
		FROM (SELECT) one LEFT JOIN {}threads t ON t.id = $2 AND NOT t.hidden`, []any{s.leaseNow(), []byte(thread)}, &owner, &expires, &epoch, &clock)
	if err != nil {
		return l, now, err
	}
	now = time.Unix(0, *clock)
	if epoch == nil {
		return l, now, notFound(op, string(thread))
	}
	if owner != nil {
		if owner, err = s.seal.Open(owner, "lease", string(thread)); err != nil {
			return l, now, corrupt(op, string(thread), err)
		}
	}
	l = segno.Lease{Thread: thread, Owner: string(owner), Epoch: uint64(*epoch)}
	if expires != nil {
		l.Expires = time.Unix(0, *expires)
	}
	return l, now, nil
}
