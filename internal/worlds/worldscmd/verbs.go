// Package worldscmd has the verbs of worlds and of the agents that live in them.
package worldscmd

import (
	"slices"

	"github.com/dalsegno/segno/internal/cli"
)

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return slices.Concat(
		cli.Group("world", a.world(), a.generations()),
		cli.Group("", a.Former(a.pause(), "segno generations pause"), a.Former(a.wake(), "segno generations wake")),
	)
}
