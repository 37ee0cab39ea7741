package historycmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
)

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "prove the store sound: every hash, every reference", Args: cobra.NoArgs,
		Example: "  segno check --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runCheck(c.Context()) },
	}
}

type checkResult struct {
	segno.Checked
	Problems []string `json:"problems"`
}

func (a *app) runCheck(ctx context.Context) error {
	store, err := a.OpenStore(ctx)
	if err != nil {
		return unreadableStoreError(err)
	}
	defer store.Close()
	res := checkResult{Problems: []string{}}
	res.Checked, err = store.Check(ctx, segno.CheckPolicy{Trace: store.NewTrace()}, func(err error) bool {
		res.Problems = append(res.Problems, err.Error())
		return len(res.Problems) < 1000
	})
	if err != nil {
		return unreadableStoreError(err)
	}
	err = a.Print(res, func(p *cli.Printer) {
		for _, problem := range res.Problems {
			p.Linef("%s", cli.Clean(problem))
		}
		p.Linef("%s, %s, %s (%s): %d damaged", cli.Plural(res.Threads, "thread"), cli.Plural(res.Checkpoints, "checkpoint"),
			cli.Plural(res.Objects, "object"), cli.Size(res.Bytes), res.Damaged)
	})
	if err == nil && len(res.Problems) > 0 {
		return segno.Errorf(segno.KindCorrupt, "check", store.Place().Store, "%s", cli.Plural(len(res.Problems), "problem")).
			WithHint("nothing was changed; keep a copy of the store before you go on")
	}
	return err
}

// unreadableStoreError replaces the hint of an error that ends the check. The usual hint is 'segno
// check', which the user has just run.
func unreadableStoreError(err error) error {
	if segno.KindOf(err) != segno.KindCorrupt {
		return err
	}
	return segno.NewError(segno.KindCorrupt, "check", "", err).
		WithHint("the database cannot be read any further; keep a copy of the store, and use a backup")
}
