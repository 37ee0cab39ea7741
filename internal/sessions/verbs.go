// Package sessions has the verbs that look after the sessions of agents.
package sessions

import (
	"github.com/dalsegno/segno/internal/cli"
)

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return cli.Group("sessions", a.sessions(), a.keep(), a.moveSession(), a.heal())
}
