// Package insightcmd has the verbs that explain how files came about, and those that give agents the history of a directory.
package insightcmd

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
		cli.Group("start", a.mcp(), a.plugin()),
		cli.Group("see", a.blame(), a.bisect(), a.gitTrailer()),
	)
}
