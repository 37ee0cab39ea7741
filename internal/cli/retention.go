package cli

import "github.com/dalsegno/segno/timeline"

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// retention is what the flags of gc ask for beside a plain collection.
type retention struct {
	days, turns int
	erase       bool
}

func (r *retention) flags(c *cobra.Command) {
	c.Flags().IntVar(&r.days, "keep-days", 0, "keep checkpoints younger than `N` days, and drop other abandoned lines and threads")
	c.Flags().IntVar(&r.turns, "keep-turns", 0, "keep the newest `N` turns of each thread, and drop other lines that were left")
	c.Flags().BoolVar(&r.erase, "erase", false, "remove every byte of deleted threads from the store")
}

// gcResult is the result of gc.
type gcResult struct {
	segno.Collection
	Threads []segno.ThreadID `json:"threads"` // that expired and were deleted
}

// collect deletes the threads that expired and collects.
func (a *app) collect(ctx context.Context, store *local.Store, r *retention) (res gcResult, err error) {
	res.Threads = []segno.ThreadID{}
	if r.days < 0 || r.turns < 0 {
		return res, usage(fmt.Errorf("--keep-days and --keep-turns are not negative"))
	}
	const most = 100 * 365 // a Duration holds no more than 292 years
	rules := timeline.Retention{KeepFor: time.Duration(min(r.days, most)) * 24 * time.Hour, KeepTurns: r.turns}
	expired, err := rules.Expired(ctx, store, a.now())
	if err != nil {
		return res, err
	}
	open, err := store.OpenThreads(ctx)
	if err != nil {
		return res, err
	}
	for _, id := range expired {
		if _, isOpen := open[id]; isOpen {
			continue
		}
		res.Threads = append(res.Threads, id)
		if a.dryRun {
			continue
		}
		if err := store.DeleteThread(ctx, id); err != nil {
			return res, err
		}
	}
	policy := segno.CollectPolicy{DryRun: a.dryRun, Trace: store.Trace}
	if policy.Retain, err = rules.Lines(ctx, store, a.now()); err != nil {
		return res, err
	}
	if r.erase {
		res.Collection, err = store.Erase(ctx, policy)
	} else {
		res.Collection, err = store.CollectLocked(ctx, policy)
	}
	if err == nil && !a.dryRun {
		err = store.CompressAll(ctx)
	}
	return res, err
}

func (a *app) writeGC(w io.Writer, res gcResult) error {
	drop, delete := "dropped", "deleted"
	if a.dryRun {
		drop, delete = "would drop", "would delete"
	}
	for _, id := range res.Threads {
		if _, err := fmt.Fprintf(w, "%s thread %s\n", delete, short(segno.CommitID(id))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s %s and %s (%s); kept: %s\n", drop, plural(res.Checkpoints, "checkpoint"), plural(res.Objects, "object"), size(res.Bytes), plural(res.Kept, "object"))
	return err
}
