// Package historycmd has the verbs of checkpoints: it shows them, moves between them, and keeps them.
package historycmd

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
	shell.State = a.state
	return slices.Concat(
		cli.Group("start", a.demo(), a.doctor()),
		cli.Group("see", a.status(), a.log(), a.show(), a.cat(), a.diff(), a.threads(), a.usage(), a.inbox()),
		cli.Group("move", a.undo(), a.redo(), a.restore(), a.op()),
		cli.Group("keep", a.save(), a.pin(), a.unpin(), a.fork(), a.resume()),
		cli.Group("store", a.check(), a.gc(), a.delete(), a.storeVerb()),
		cli.Group("", a.demoAgent()),
	)
}
