// Package searchcmd has the verb that searches the conversations and changes of a store.
package searchcmd

import "github.com/dalsegno/segno/internal/cli"

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return cli.Group("see", a.search())
}
