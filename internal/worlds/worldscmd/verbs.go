// Package worldscmd has the verbs of worlds and of the agents that live in them.
package worldscmd

import (
	"slices"

	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

// Wing is this wing of the command. models are the models that users can name.
func Wing(models chat.Models) cli.Wing {
	return cli.Wing{Verbs: func(shell *cli.App) []cli.Verb { return verbs(&app{shell, models}) }, Report: archivefile.Report}
}

// app is one run of the command.
type app struct {
	*cli.App
	models chat.Models
}

func verbs(a *app) []cli.Verb {
	return slices.Concat(
		cli.Group("world", a.world(), a.generations()),
		cli.Group("", a.Former(a.pause(), "segno generations pause"), a.Former(a.wake(), "segno generations wake")),
	)
}
