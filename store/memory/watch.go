package memory

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

var _ segno.Watcher = (*Store)(nil)

// Wait implements [segno.Watcher].
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.notifier.Wait(ctx, thread, after, s.Head, notify.UntilNotified)
}
