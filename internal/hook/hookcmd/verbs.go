// Package hookcmd has the verbs of agents with hooks.
package hookcmd

import (
	"context"
	"slices"

	"github.com/dalsegno/segno/internal/cli"
)

// Wing is this wing of the command.
func Wing() cli.Wing {
	return cli.Wing{Verbs: verbs, Quick: func(ctx context.Context, shell *cli.App, args []string) bool {
		return (&app{shell}).quickHook(ctx, args)
	}}
}

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return slices.Concat(
		cli.Group("start", a.enable(), a.disable(), a.watch()),
		cli.Group("", a.hook(), a.baseline()),
	)
}
