package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

func (a *app) gc() *cobra.Command {
	c := &cobra.Command{
		Use: "gc", Short: "drop what nothing reaches", Args: cobra.NoArgs,
		Long: `Drops what no thread, line, fork, pin, operation or open turn reaches any more, and
nothing younger than an hour.`,
		Example: "  segno gc --dry-run",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runGC(c.Context()) },
	}
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "only count")
	return c
}

func (a *app) runGC(ctx context.Context) error {
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	policy := segno.CollectPolicy{DryRun: a.dryRun, Trace: store.Trace}
	res, err := store.CollectLocked(ctx, policy)
	if err != nil {
		return err
	}
	return a.print(res, func(w io.Writer) error {
		verb := "dropped"
		if a.dryRun {
			verb = "would drop"
		}
		_, err := fmt.Fprintf(w, "%s %s and %s (%s); kept: %s\n", verb, plural(res.Checkpoints, "checkpoint"), plural(res.Objects, "object"), size(res.Bytes), plural(res.Kept, "object"))
		return err
	})
}
