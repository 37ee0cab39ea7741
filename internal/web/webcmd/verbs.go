// Package webcmd has the verbs of the page, the HTTP API and exports.
package webcmd

import (
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/cli/secretscan"
)

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs, Report: secretscan.Report} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	return cli.Group("page", a.web(), a.serve(), a.share(), a.export())
}
