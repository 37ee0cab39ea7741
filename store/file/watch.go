package file

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

var _ segno.Watcher = (*Store)(nil)

// Wait implements [segno.Watcher]. A commit of this Store's is heard of at once, one
// of another's a quarter of a second later at most: the log is looked at now and then.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.notifier.Wait(ctx, thread, after, s.Head, notify.Poll())
}
