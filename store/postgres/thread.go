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
	err := s.row(ctx, "read head", string(thread), `SELECT head, tip, seq, turn, epoch, session FROM {}threads WHERE id = $1
		AND NOT hidden`,
		[]any{[]byte(thread)}, &h.head, &h.tip, &h.seq, &h.turn, &h.epoch, &h.link)
	if err != nil {
		return segno.Head{}, err
	}
	return s.decodeHead(thread, &h)
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	wasLost := false // the answer to an execution was lost
	err := s.call(ctx, op, string(thread), func(ctx context.Context) error {
		tag, err := s.pool.Exec(s.writeContext(ctx), s.sql(`UPDATE {}threads SET hidden = true WHERE id = $1 AND NOT hidden`), []byte(thread))
		wasLost = wasLost || err != nil && !isNotExecuted(err)
		if err == nil && tag.RowsAffected() == 0 && !wasLost {
			err = notFound(op, string(thread))
		}
		return err
	})
	s.watch.notifier.Notify(thread)
	return err
}

// Lease implements [sqlstore.Database]. The time is that of Options.Clock, and otherwise the server's.
func (d database) Lease(ctx context.Context, op string, thread segno.ThreadID) (l sqlstore.LeaseRow, now time.Time, err error) {
	l.Thread = thread
	var exists bool
	var clock int64
	err = d.row(ctx, op, string(thread), `SELECT coalesce(t.hidden, false), t.owner, coalesce(t.expires, 0), coalesce(t.epoch, 0),
			t.n IS NOT NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
		FROM (SELECT) one LEFT JOIN {}threads t ON t.id = $1 AND NOT t.hidden`, []any{[]byte(thread)}, append(l.Dest(), &exists, &clock)...)
	if err == nil && !exists {
		err = notFound(op, string(thread))
	}
	if d.options.Clock != nil {
		return l, d.options.Clock(), err
	}
	return l, time.Unix(0, clock), err
}

func (database) LeaseOwner(l *sqlstore.LeaseRow) any { return l.Owner }

func (database) VerifyLease(string, *sqlstore.LeaseRow) error { return nil }

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
	seqs := map[segno.ThreadID]int64{}
	err = database{s}.Read(ctx, "wait for thread", s.name, func(ctx context.Context, q sqlstore.Querier) error {
		clear(seqs)
		var id sqlstore.Text
		var seq int64
		return q.Query(ctx, `SELECT id, seq FROM {}threads WHERE id = ANY($1) AND NOT hidden`, []any{ids}, []any{&id, &seq}, func() error {
			seqs[segno.ThreadID(id)] = seq
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	for id, after := range waiting {
		if seq, exists := seqs[id]; !exists || seq > after {
			s.watch.notifier.Notify(id)
			soon = true
		}
	}
	return soon, nil
}
