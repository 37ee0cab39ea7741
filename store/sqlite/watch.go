package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/bell"
)

var _ segno.Watcher = (*Store)(nil)

// watch is how a store learns that a thread has moved. Its own commits ring a bell.
// For those of other processes one of those who wait keeps a lookout for all: who has
// the lookout asks it now and then, and who leaves gives it to the next.
type watch struct {
	bells bell.Bells
	post  chan *lookout // holds the lookout while nobody has it
}

// lookout is a connection that can tell whether another has committed.
type lookout struct {
	conn    *conn // nil until it is needed
	version int64 // as it was when it was asked last, or never
}

const never = -1

func newWatch() *watch {
	w := &watch{post: make(chan *lookout, 1)}
	w.post <- &lookout{version: never}
	return w
}

// close gives the lookout's connection back. Nobody waits any more.
func (w *watch) close() error {
	if l := <-w.post; l.conn != nil {
		return l.conn.close()
	}
	return nil
}

// Wait implements [segno.Watcher]. A commit of this Store's is heard of at once, one
// of another's a fraction of a second later.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.watch.bells.Wait(ctx, thread, after, s.Head, s.rest)
}

// How often the lookout is asked: soon at first, less often while nobody commits.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// rest waits for the bell, and keeps the lookout if nobody else does.
func (s *Store) rest(ctx context.Context, rung <-chan struct{}) error {
	var l *lookout
	select {
	case l = <-s.watch.post:
	case <-rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.watch.post <- l }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		select {
		case <-timer.C:
		case <-rung:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		moved, err := s.ask(ctx, l)
		if err != nil {
			return fail("wait for thread", s.dir, err)
		}
		if moved {
			// Somebody committed something, perhaps before the others took their bells
			// and perhaps after: all look again.
			s.watch.bells.RingAll()
			return nil
		}
		timer.Reset(pause)
	}
}

// ask reports whether there were commits on other connections since it was asked
// last. The first time it cannot know, and says yes; one that failed begins anew.
func (s *Store) ask(ctx context.Context, l *lookout) (moved bool, err error) {
	if err := s.enter(ctx, "wait for thread"); err != nil {
		return false, err
	}
	defer s.calls.Done()
	ctx = context.WithoutCancel(ctx)
	if l.conn == nil {
		if l.conn, err = s.connect(ctx); err != nil {
			return false, err
		}
	}
	before := l.version
	if _, err := l.conn.row(ctx, "PRAGMA data_version", nil, &l.version); err != nil {
		err = errors.Join(err, l.conn.close())
		l.conn, l.version = nil, never
		return false, err
	}
	return l.version != before, nil
}
