package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/printable"
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
	err = a.print(res, func(p *printer) {
		for _, problem := range res.Problems {
			p.linef("%s", clean(problem))
		}
		p.linef("%s, %s, %s (%s): %d damaged", plural(res.Threads, "thread"), plural(res.Checkpoints, "checkpoint"),
			plural(res.Objects, "object"), size(res.Bytes), res.Damaged)
	})
	if err == nil && len(res.Problems) > 0 {
		return segno.Errorf(segno.KindCorrupt, "check", store.Place().Store, "%s", plural(len(res.Problems), "problem")).
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

// size formats a number of bytes with a unit, as "1.5 MiB".
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB"}
	for ; value >= 1<<10 && len(units) > 1; units = units[1:] {
		value /= 1 << 10
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

// plural formats a count with its noun: "1 file", "2 files".
func plural(n int, thing string) string { return printable.Plural(n, thing) }

func files(n int) string { return plural(n, "file") }
