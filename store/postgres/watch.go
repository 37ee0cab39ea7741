package postgres

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
	"github.com/jackc/pgx/v5"
)

var _ segno.Watcher = (*Store)(nil)

// watch is how a store learns that a thread has moved. Its own commits notify it.
// For those of others one of those who wait asks now and then, for all of them in one
// query. There is no NOTIFY: a transaction with one takes a lock when it commits that
// every other such transaction of the server waits for (PreCommit_Notify in
// PostgreSQL's async.c).
type watch struct {
	notifier notify.Notifier
	poller   *notify.SharedPoller
}

func (s *Store) newWatch() *watch { return &watch{poller: notify.NewSharedPoller(s.ask)} }

// Wait implements [segno.Watcher]. A commit of this Store's is heard of at once, one
// of another's a quarter of a second later at most.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.watch.notifier.Wait(ctx, thread, after, s.Head, s.watch.poller.Pause)
}

// ask is a [notify.PollFunc].
func (s *Store) ask(ctx context.Context) (soon bool, err error) {
	var ids [][]byte
	waiting := s.watch.notifier.Waiting()
	for id := range waiting {
		ids = append(ids, []byte(id))
	}
	const still = `SELECT id, seq FROM {}threads WHERE id = ANY($1) AND NOT hidden`
	seqs := make(map[segno.ThreadID]int64, len(ids))
	err = s.rows(ctx, "wait for thread", s.name, still, []any{ids}, func() { clear(seqs) }, func(r pgx.Rows) error {
		var id []byte
		var seq int64
		err := r.Scan(&id, &seq)
		seqs[segno.ThreadID(id)] = seq
		return err
	})
	if err != nil {
		return false, err
	}
	for id, after := range waiting {
		if seq, there := seqs[id]; !there || seq > after {
			s.watch.notifier.Notify(id)
			soon = true
		}
	}
	return soon, nil
}
