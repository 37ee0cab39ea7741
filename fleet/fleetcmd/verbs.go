// Package fleetcmd has the verbs of a fleet: the worker, and what people type to send prompts and to watch them.
package fleetcmd

import (
	"errors"

	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
)

// Wing is this wing of the command. models are the models that an agents.toml can name.
func Wing(models chat.Models) cli.Wing {
	return cli.Wing{Verbs: func(shell *cli.App) []cli.Verb { return verbs(&app{shell, models}) }, Report: report}
}

// app is one run of the command.
type app struct {
	*cli.App
	models chat.Models
}

func verbs(a *app) []cli.Verb { return cli.Group("fleet", a.worker(), a.send(), a.fleet()) }

// report is the report of this wing; see [cli.Wing].
func report(err error) (code int, fields map[string]any) {
	if o := (*outcomeError)(nil); errors.As(err, &o) {
		return o.code, map[string]any{"prompt": o.prompt}
	}
	if f := (*fileError)(nil); errors.As(err, &f) {
		return cli.ExitInvalid, map[string]any{"mistakes": f.lines}
	}
	return 0, nil
}
