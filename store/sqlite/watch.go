package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

var _ segno.Watcher = (*Store)(nil)

// watch is how a store learns that a thread has moved. Its own commits notify it.
// For those of other processes one of those who wait asks now and then, on a
// connection of its own.
type watch struct {
	notifier notify.Notifier
	poller   *notify.SharedPoller
	lookout
}

// lookout finds out what was committed on other connections.
type lookout struct {
	conn    *conn     // nil until it is needed
	version int64     // of the database's data when it was asked last
	newest  int64     // the newest commit then
	owes    bool      // something changed, and not all who wait have looked since
	looked  time.Time // when all last did
}

func (s *Store) newWatch() *watch {
	return &watch{poller: notify.NewSharedPoller(s.ask)}
}

// Wait implements [segno.Watcher]. A commit of this Store's is heard of at once, one
// of another's a quarter of a second later at most.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	look := func(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
		return s.head(ctx, thread, s.readApart)
	}
	return s.watch.notifier.Wait(ctx, thread, after, look, s.watch.poller.Pause)
}

// ask is a [notify.PollFunc].
func (s *Store) ask(ctx context.Context) (soon bool, err error) {
	const op = "wait for thread"
	if err := s.enter(ctx, op); err != nil {
		return false, err
	}
	defer s.calls.Done()
	ctx = context.WithoutCancel(ctx)
	l := &s.watch.lookout
	if soon, err = s.lookOut(ctx, l); err != nil {
		err = errors.Join(err, l.close())
		*l = lookout{} // it begins anew
	}
	return soon, fail(op, s.dir, err)
}

// everybody is how long passes at least before all who wait look for themselves again.
const everybody = 500 * time.Millisecond

// lookOut rings for what was committed on other connections since it last did. A delete
// is no commit: so when something has changed all look for themselves, too, but not each
// time.
func (s *Store) lookOut(ctx context.Context, l *lookout) (changed bool, err error) {
	first := l.conn == nil
	if first {
		if l.conn, err = s.connect(ctx); err != nil {
			return false, err
		}
	}
	version, newest := l.version, l.newest
	if _, err := l.conn.row(ctx, "PRAGMA data_version", nil, &l.version); err != nil {
		return false, err
	}
	changed = first || l.version != version
	if changed {
		if _, err := l.conn.row(ctx, "SELECT coalesce(max(n), 0) FROM commits", nil, &l.newest); err != nil {
			return false, err
		}
		l.owes = true
	}
	const many = 200
	if first || l.newest > newest+many || l.owes && time.Since(l.looked) > everybody {
		l.owes, l.looked = false, time.Now()
		s.watch.notifier.NotifyAll()
		return changed, nil
	}
	if l.newest <= newest {
		return changed, nil
	}
	return changed, l.conn.rows(ctx, "SELECT DISTINCT t.id FROM commits c JOIN threads t ON t.n = c.thread WHERE c.n > ? AND c.n <= ?",
		[]any{newest, l.newest}, func(r *sql.Rows) error {
			var id segno.ThreadID
			err := r.Scan(&id)
			s.watch.notifier.Notify(id)
			return err
		})
}

// close closes the lookout's connection.
func (l *lookout) close() error {
	if l.conn == nil {
		return nil
	}
	return l.conn.close()
}
