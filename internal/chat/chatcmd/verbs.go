// Package chatcmd has the verbs of segno's own agent.
package chatcmd

import (
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
)

// Wing is this wing of the command. models are the models that users can name.
func Wing(models chat.Models) cli.Wing {
	return cli.Wing{Verbs: func(shell *cli.App) []cli.Verb { return verbs(&app{shell, models}) }, Report: reportApproval}
}

// app is one run of the command.
type app struct {
	*cli.App
	models chat.Models
}

func verbs(a *app) []cli.Verb {
	return cli.Group("talk", a.chat(), a.agent())
}
