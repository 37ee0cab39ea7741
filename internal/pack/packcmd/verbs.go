// Package packcmd has the verbs of archives.
package packcmd

import (
	"slices"

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
	const long = `Looks into archives, and writes nothing. 'segno pack' writes an archive, 'segno unpack' makes
its files and its conversation again, and 'segno diff' also compares two archives.`
	return slices.Concat(
		cli.Group("archive", a.pack(), a.unpack(), cli.Noun("archive", "look into an archive", long, a.inspect(), a.verify())),
		cli.Group("", a.Former(a.inspect(), "segno archive inspect"), a.Former(a.verify(), "segno archive verify")),
	)
}
