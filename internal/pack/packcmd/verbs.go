// Package packcmd has the verbs of archives.
package packcmd

import (
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

// Wing is this wing of the command.
func Wing() cli.Wing { return cli.Wing{Verbs: verbs, Report: archivefile.Report} }

// app is one run of the command.
type app struct{ *cli.App }

func verbs(shell *cli.App) []cli.Verb {
	a := &app{shell}
	shell.ArchiveDiff = a.runArchiveDiff
	return cli.Group("archive", a.pack(), a.unpack(), a.inspect(), a.verify())
}
