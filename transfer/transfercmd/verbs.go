// Package transfercmd has the verbs that copy threads between this machine and a server.
package transfercmd

import "github.com/dalsegno/segno/internal/cli"

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return cli.Group("archive", a.push(), a.pull())
}
