package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
)

// Watch wakes the callers that wait for a commit. The store notifies them of its own commits. To find commits of other
// processes, one of the waiting callers polls the database for all of them.
type Watch struct {
	notify.Notifier
	Poller *notify.SharedPoller
}

// Wait implements [segno.Watcher]. It returns at once after a commit of this Store, and within a quarter of a
// second after a commit of another process.
func (c *Common) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return c.watch.Wait(ctx, thread, after, c.store.Head, c.watch.Poller.Pause)
}

// poll wakes the callers that wait for a thread that moved or was deleted. woke is true if there were any.
func (c *Common) poll(ctx context.Context) (woke bool, err error) {
	err = c.db.Read(ctx, "wait for thread", "", func(ctx context.Context, q Querier) error {
		if c.dialect.HasChanged != nil {
			if changed, err := c.dialect.HasChanged(ctx, q); err != nil || !changed {
				return err
			}
		}
		waiting := c.watch.Waiting()
		query, args := c.dialect.Seqs(slices.Collect(maps.Keys(waiting)))
		seqs := map[segno.ThreadID]int64{}
		var id Text
		var seq int64
		if err := q.Query(ctx, query, args, []any{&id, &seq}, func() error {
			seqs[segno.ThreadID(id)] = seq
			return nil
		}); err != nil {
			return err
		}
		for id, after := range waiting {
			if seq, exists := seqs[id]; !exists || seq > after {
				c.watch.Notify(id)
				woke = true
			}
		}
		return nil
	})
	return woke, err
}
