package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) gc() *cobra.Command {
	var r retention
	c := &cobra.Command{
		Use: "gc", Short: "drop unreachable checkpoints and objects", Args: cobra.NoArgs,
		Long: `Drops checkpoints and objects that no thread, line, fork, pin, operation or open turn
reaches. Objects younger than an hour stay.

With --keep-days or --keep-turns it also drops lines that an undo or a restore left,
unless one of the rules keeps them. With --keep-days alone, threads without a younger turn
are deleted. A thread that has a pin, runs or waits for a decision always stays, and so
does the current line of a thread. A dry run names the threads, but does not count the
objects that only they reach.`,
		Example: "  segno gc --dry-run\n  segno gc --keep-days 90\n  segno gc --keep-days 30 --keep-turns 20 --erase",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runGC(c.Context(), &r) },
	}
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "only count")
	r.flags(c)
	return c
}

func (a *app) runGC(ctx context.Context, r *retention) error {
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	res, err := a.collect(ctx, store, r)
	if err != nil {
		return err
	}
	return a.print(res, func(w io.Writer) error { return a.writeGC(w, res) })
}
