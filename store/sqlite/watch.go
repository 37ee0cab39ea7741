package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

// watch wakes the callers that wait for a commit. Commits of this process wake them at once. For the commits
// of other processes, one waiting caller polls the database on a separate connection.
type watch struct {
	notifier notify.Notifier
	poller   *notify.SharedPoller
	changeWatcher
}

// wakeAllPause is the shortest time between two wake-ups of all callers after a change.
const wakeAllPause = 500 * time.Millisecond

// changeWatcher detects commits on other connections.
type changeWatcher struct {
	conn     *conn     // nil until it is needed
	version  int64     // of the database's data at the last poll
	newest   int64     // the newest commit then
	mustWake bool      // something changed, and not all callers were woken since
	wokeAll  time.Time // when all callers were woken last
}

func (s *Store) newWatch() *watch { return &watch{poller: notify.NewSharedPoller(s.poll)} }

// Wait implements [segno.Watcher]. It returns at once after a commit of this Store, and within a quarter of a
// second after a commit of another process.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	look := func(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
		return s.readHead(ctx, thread, s.readApart)
	}
	return s.watch.notifier.Wait(ctx, thread, after, look, s.watch.poller.Pause)
}

// poll wakes the callers whose thread may have changed, and reports whether anything changed.
func (s *Store) poll(ctx context.Context) (changed bool, err error) {
	const op = "wait for thread"
	if err := s.calls.Begin(ctx, op); err != nil {
		return false, err
	}
	defer s.calls.End()
	w := &s.watch.changeWatcher
	if changed, err = s.wakeChanged(context.WithoutCancel(ctx), w); err != nil {
		err = errors.Join(err, w.close())
		*w = changeWatcher{}
	}
	return changed, fail(op, s.dir, err)
}

// wakeChanged wakes the callers that wait for a thread that got a commit on another connection. The deletion of
// a thread is not a commit: after any change wakeChanged therefore also wakes all callers, but not more often
// than every wakeAllPause.
func (s *Store) wakeChanged(ctx context.Context, w *changeWatcher) (changed bool, err error) {
	const maxCommits = 200 // of more new commits all callers are woken
	isFirst := w.conn == nil
	if isFirst {
		if w.conn, err = s.connect(ctx); err != nil {
			return false, err
		}
	}
	version, newest := w.version, w.newest
	if _, err := w.conn.row(ctx, "PRAGMA data_version", nil, &w.version); err != nil {
		return false, err
	}
	changed = isFirst || w.version != version
	if changed {
		if _, err := w.conn.row(ctx, "SELECT coalesce(max(n), 0) FROM commits", nil, &w.newest); err != nil {
			return false, err
		}
		w.mustWake = true
	}
	if isFirst || w.newest > newest+maxCommits || w.mustWake && time.Since(w.wokeAll) > wakeAllPause {
		w.mustWake, w.wokeAll = false, time.Now()
		s.watch.notifier.NotifyAll()
		return changed, nil
	}
	if w.newest <= newest {
		return changed, nil
	}
	var id segno.ThreadID
	return changed, w.conn.Query(ctx, "SELECT DISTINCT t.id FROM commits c JOIN threads t ON t.n = c.thread WHERE c.n > ? AND c.n <= ?",
		[]any{newest, w.newest}, []any{&id}, func() error {
			s.watch.notifier.Notify(id)
			return nil
		})
}

// close closes the connection.
func (w *changeWatcher) close() error {
	if w.conn == nil {
		return nil
	}
	return w.conn.close()
}
