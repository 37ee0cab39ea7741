package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "prove the store sound: every hash, every reference", Args: cobra.NoArgs,
		Example: "  segno check --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runCheck(c.Context()) },
	}
}

// checkResult is the result of check.
type checkResult struct {
	segno.Checked
	Problems []string `json:"problems"`
}

func (a *app) runCheck(ctx context.Context) error {
	store, err := a.openStore(ctx)
	if err != nil {
		return unreadableStoreError(err)
	}
	defer store.Close()
	res := checkResult{Problems: []string{}}
	res.Checked, err = store.Check(ctx, segno.CheckPolicy{Trace: store.Trace}, func(err error) bool {
		res.Problems = append(res.Problems, err.Error())
		return len(res.Problems) < 1000
	})
	if err != nil {
		return unreadableStoreError(err)
	}
	err = a.print(res, func(w io.Writer) error {
		for _, p := range res.Problems {
			fmt.Fprintln(w, clean(p))
		}
		_, err := fmt.Fprintf(w, "%s, %s, %s (%s): %d damaged\n", plural(res.Threads, "thread"),
			plural(res.Checkpoints, "checkpoint"), plural(res.Objects, "object"), size(res.Bytes), res.Damaged)
		return err
	})
	if err == nil && len(res.Problems) > 0 {
		return segno.Errorf(segno.KindCorrupt, "check", store.Place().Store, "%s", plural(len(res.Problems), "problem")).WithHint("nothing was changed; keep a copy of the store before you go on")
	}
	return err
}

// unreadableStoreError is damage that ends the check itself. Its hint is to run the check.
func unreadableStoreError(err error) error {
	if segno.KindOf(err) != segno.KindCorrupt {
		return err
	}
	return segno.NewError(segno.KindCorrupt, "check", "", err).WithHint("the database cannot be read any further; keep a copy of the store, and use a backup")
}

// openStore opens the store for verbs that need no workspace.
func (a *app) openStore(ctx context.Context) (*local.Store, error) {
	place, err := a.place()
	if err != nil {
		return nil, err
	}
	if !place.Exists() {
		return nil, segno.NewError(segno.KindNotFound, "open store", place.Store, nil).WithHint("run 'segno enable claude', 'segno save', or use --store PATH")
	}
	return place.Open(ctx)
}

// size writes a number of bytes the way people say it.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
