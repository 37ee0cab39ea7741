package memory

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/bell"
)

var _ segno.Watcher = (*Store)(nil)

// Wait implements [segno.Watcher].
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.bells.Wait(ctx, thread, after, s.Head, bell.Rung)
}
