// Package insightcmd has the verbs for understanding and for agents: the history of a directory as tools of an agent.
package insightcmd

import "github.com/dalsegno/segno/internal/cli"

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return cli.Group("start",
		a.mcp(),
		a.plugin(),
	)
}
