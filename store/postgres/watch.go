package postgres

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/bell"
)

var _ segno.Watcher = (*Store)(nil)

// Wait implements [segno.Watcher]. A commit of this Store's is heard of at once, one
// of another's a quarter of a second later at most: the thread's row is read now and
// then. There is no NOTIFY: a transaction with one takes a lock when it commits that
// every other such transaction of the server waits for (PreCommit_Notify in
// PostgreSQL's async.c).
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.bells.Wait(ctx, thread, after, s.Head, bell.NowAndThen())
}
