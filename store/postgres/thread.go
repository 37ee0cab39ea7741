package postgres

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
	"github.com/dalsegno/segno/internal/sqlstore"
)

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	var h headRow
	err := s.row(ctx, "read head", string(thread), `SELECT head, tip, seq, turn, epoch, session FROM {}threads WHERE id = $1 AND NOT hidden`,
		[]any{[]byte(thread)}, &h.head, &h.tip, &h.seq, &h.turn, &h.epoch, &h.link)
	if err != nil {
		return segno.Head{}, err
	}
	return s.decodeHead(thread, &h)
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	deleted, err := database{s}.Change(ctx, op, string(thread), `UPDATE {}threads SET hidden = true WHERE id = $1 AND NOT hidden`, []byte(thread))
	if err == nil && !deleted {
		err = notFound(op, string(thread))
	}
	s.watch.notifier.Notify(thread)
	return err
}

// leaseNow is the time in nanoseconds: argument 1 if Options.Clock gives it, and otherwise the server's.
const leaseNow = `coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000)`

// clockNow is argument 1 of leaseNow.
func (s *Store) clockNow() *int64 {
	if s.options.Clock == nil {
		return nil
	}
	now := s.options.Clock().UnixNano()
	return &now
}

// Acquire implements [segno.Leaser]. The owner of a lease that has not expired renews it under the same
// epoch, unless l names an older epoch. A retry after a lost connection renews the lease.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	name := string(l.Thread)
	if l.Owner == "" {
		return l, segno.Errorf(segno.KindInvalid, op, name, "it needs an owner")
	}
	var epoch uint64
	err := s.row(ctx, op, name, `UPDATE {}threads SET owner = $3, expires = $4,
			epoch = epoch + CASE WHEN owner IS NOT NULL AND expires > `+leaseNow+` THEN 0 ELSE 1 END
		WHERE id = $2 AND NOT hidden AND $4::bigint > `+leaseNow+` AND ($5::bigint = 0 OR $5 >= epoch)
			AND (owner IS NULL OR owner = $3 OR expires <= `+leaseNow+`)
		RETURNING epoch`, []any{s.clockNow(), []byte(l.Thread), s.leaseOwner(l), l.Expires.UnixNano(), int64(l.Epoch)}, &epoch)
	if err == nil {
		l.Epoch = epoch
		return l, nil
	}
	if segno.KindOf(err) != segno.KindNotFound {
		return l, err
	}
	held, now, err := s.readLease(ctx, op, l.Thread)
	switch isHeld := held.Owner != "" && now.Before(held.Expires); {
	case err != nil && segno.KindOf(err) != segno.KindNotFound:
		return l, err
	case !l.Expires.After(now):
		return l, segno.Errorf(segno.KindInvalid, op, name, "it needs an end in the future")
	case err != nil:
		return l, err
	case l.Epoch != 0 && l.Epoch < held.Epoch && (!isHeld || held.Owner == l.Owner):
		return l, segno.NewError(segno.KindFenced, op, name, nil)
	}
	return l, segno.Errorf(segno.KindBusy, op, name, "it is held by %s", held.Owner)
}

// Release implements [segno.Leaser]. The error is [segno.KindFenced] if the caller does not hold the lease.
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	released, err := database{s}.Change(ctx, op, string(l.Thread), `UPDATE {}threads SET owner = NULL, expires = NULL
		WHERE id = $1 AND NOT hidden AND owner = $2 AND epoch = $3`, []byte(l.Thread), s.leaseOwner(l), int64(l.Epoch))
	if err != nil || released {
		return err
	}
	if _, _, err := s.readLease(ctx, op, l.Thread); err != nil {
		return err
	}
	return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
}

// leaseOwner returns the owner of a lease as statements compare it.
func (s *Store) leaseOwner(l segno.Lease) []byte {
	return s.records.Sealer.Same([]byte(l.Owner), "lease", string(l.Thread))
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	l, now, err := s.readLease(ctx, "read lease", thread)
	if err != nil || l.Owner == "" || !now.Before(l.Expires) {
		return segno.Lease{}, err
	}
	return l, nil
}

// readLease reads the lease of a thread, which may have expired, and the time. now is set also if there is
// no such thread.
func (s *Store) readLease(ctx context.Context, op string, thread segno.ThreadID) (l segno.Lease, now time.Time, err error) {
	var owner []byte
	var expires, epoch, clock *int64
	err = s.row(ctx, op, string(thread), `SELECT t.owner, t.expires, t.epoch, `+leaseNow+`
		FROM (SELECT) one LEFT JOIN {}threads t ON t.id = $2 AND NOT t.hidden`, []any{s.clockNow(), []byte(thread)}, &owner, &expires, &epoch, &clock)
	if err != nil {
		return l, now, err
	}
	now = time.Unix(0, *clock)
	if epoch == nil {
		return l, now, notFound(op, string(thread))
	}
	if owner != nil {
		if owner, err = s.records.Sealer.Open(owner, "lease", string(thread)); err != nil {
			return l, now, s.records.Corrupt(op, string(thread), err)
		}
	}
	l = segno.Lease{Thread: thread, Owner: string(owner), Epoch: uint64(*epoch)}
	if expires != nil {
		l.Expires = time.Unix(0, *expires)
	}
	return l, now, nil
}

// watch wakes the callers that wait for a commit. Commits of this process wake them at once. For the commits
// of other processes, one waiting caller polls the database for all of them in one query. There is no NOTIFY:
// a transaction with one takes a lock at its commit that every other such transaction of the server waits
// for (PreCommit_Notify in PostgreSQL's async.c).
type watch struct {
	notifier notify.Notifier
	poller   *notify.SharedPoller
}

func (s *Store) newWatch() *watch { return &watch{poller: notify.NewSharedPoller(s.poll)} }

// Wait implements [segno.Watcher]. It returns at once after a commit of this Store, and within a quarter of a
// second after a commit of another process.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.watch.notifier.Wait(ctx, thread, after, s.Head, s.watch.poller.Pause)
}

// poll wakes the callers that wait for a thread that has moved or was deleted.
func (s *Store) poll(ctx context.Context) (soon bool, err error) {
	var ids [][]byte
	waiting := s.watch.notifier.Waiting()
	for id := range waiting {
		ids = append(ids, []byte(id))
	}
	type position struct {
		thread segno.ThreadID
		seq    int64
	}
	found, err := sqlstore.List(ctx, database{s}, "wait for thread", s.name, `SELECT id, seq FROM {}threads WHERE id = ANY($1) AND NOT hidden`, []any{ids},
		func(r sqlstore.Row) (at position, err error) {
			err = r.Scan((*sqlstore.Text)(&at.thread), &at.seq)
			return at, err
		})
	if err != nil {
		return false, err
	}
	seqs := make(map[segno.ThreadID]int64, len(found))
	for _, at := range found {
		seqs[at.thread] = at.seq
	}
	for id, after := range waiting {
		if seq, exists := seqs[id]; !exists || seq > after {
			s.watch.notifier.Notify(id)
			soon = true
		}
	}
	return soon, nil
}
