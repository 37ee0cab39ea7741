// Package sessions has the verbs that look after the sessions of agents.
package sessions

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
		cli.Group("sessions", a.sessions()),
		cli.Group("", a.Former(a.keep(), "segno sessions keep"), a.Former(a.moveSession(), "segno sessions move"), a.Former(a.heal(), "segno sessions heal")),
	)
}
