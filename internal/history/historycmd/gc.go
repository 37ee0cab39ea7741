package historycmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) gc() *cobra.Command {
	var f gcFlags
	c := &cobra.Command{
		Use: "gc", Short: "drop unreachable checkpoints and objects", Args: cobra.NoArgs,
		Long: `Drops checkpoints and objects that no thread, line, fork, pin, operation or open turn
reaches. Objects younger than an hour stay.

With --keep-days or --keep-turns it also drops lines that an undo or a restore left,
unless one of the rules keeps them. With --keep-days alone, threads without a younger turn
are deleted. A thread that has a pin, runs or waits for a decision always stays, and so
does the current line of a thread. A dry run names the threads, but does not count the
objects that only they reach.

--erase removes what only deleted threads reach, whatever its age, and rewrites the database
so that no byte of it stays. If an earlier gc without --erase dropped their checkpoints, their
objects stay until they are an hour old: repeat 'segno gc --erase' then.`,
		Example: "  segno gc --dry-run\n  segno gc --keep-days 90\n  segno gc --keep-days 30 --keep-turns 20 --erase",
	}
	c.RunE = a.InStore(func(ctx context.Context, store *local.Store, _ []string) error {
		// 0 is refused, too: it would be the rule that keeps nothing, and no rule must not delete the threads of a user.
		if c.Flags().Changed("keep-days") && f.days < 1 || c.Flags().Changed("keep-turns") && f.turns < 1 {
			return cli.Usage(errors.New("--keep-days and --keep-turns must be at least 1; leave out the flag of a rule that you do not want"))
		}
		return a.runGC(ctx, store, f)
	})
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "only count")
	c.Flags().IntVar(&f.days, "keep-days", 0, "keep checkpoints younger than `N` days, and drop other abandoned lines and threads")
	c.Flags().IntVar(&f.turns, "keep-turns", 0, "keep the newest `N` turns of each thread, and drop other lines that were left")
	c.Flags().BoolVar(&f.erase, "erase", false, "remove every byte of deleted threads from the store")
	return c
}

// gcFlags are the options of gc. Without them, gc only collects unreachable objects.
type gcFlags struct {
	days, turns int
	erase       bool
}

type gcResult struct {
	segno.Collection
	Threads []segno.ThreadID `json:"threads"` // the expired threads, which gc deleted
}

func (a *app) runGC(ctx context.Context, store *local.Store, f gcFlags) error {
	res, err := a.collect(ctx, store, f)
	if err != nil {
		return err
	}
	return a.Print(res, func(p *cli.Printer) {
		drop, deleted := "dropped", "deleted"
		if a.DryRun {
			drop, deleted = "would drop", "would delete"
		}
		for _, id := range res.Threads {
			p.Linef("%s thread %s", deleted, cli.Short(id))
		}
		p.Linef("%s %s and %s (%s); kept: %s", drop, cli.Plural(res.Checkpoints, "checkpoint"), cli.Plural(res.Objects, "object"),
			cli.Size(res.Bytes), cli.Plural(res.Kept, "object"))
	})
}

// collect deletes the expired threads, except those with an open turn, and then collects
// unreachable objects. A dry run deletes nothing, so it still counts the objects of expired threads
// as reachable.
func (a *app) collect(ctx context.Context, store *local.Store, f gcFlags) (res gcResult, err error) {
	res.Threads = []segno.ThreadID{}
	const most = 100 * 365 // a Duration has at most 292 years
	rules := timeline.Retention{KeepFor: time.Duration(min(f.days, most)) * 24 * time.Hour, KeepTurns: f.turns}
	expired, err := rules.Expired(ctx, store, a.Now())
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
		if res.Threads = append(res.Threads, id); a.DryRun {
			continue
		}
		if err := store.DeleteThread(ctx, id); err != nil {
			return res, err
		}
	}
	policy := segno.CollectPolicy{DryRun: a.DryRun, Trace: store.NewTrace()}
	if policy.Retain, err = rules.Lines(ctx, store, a.Now()); err != nil {
		return res, err
	}
	if f.erase {
		res.Collection, err = store.Erase(ctx, policy)
	} else {
		res.Collection, err = store.CollectLocked(ctx, policy)
	}
	if err == nil && !a.DryRun {
		err = store.CompressAll(ctx)
	}
	return res, err
}
