package cli

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// The exit codes, documented in docs/cli.md. The table is append-only; a code a
// script does not know means failure.
const (
	exitOK        = 0
	exitInternal  = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitConflict  = 4 // done, but some paths were left as they are; or somebody else was first
	exitRefused   = 5 // it would be unsafe now, or nobody was asked
	exitDamaged   = 6
	exitBusy      = 7
	exitNewer     = 8
	exitIO        = 9
	exitCancelled = 130
)

var exitCodes = map[segno.Kind]int{
	segno.KindInternal: exitInternal, segno.KindInvalid: exitUsage, segno.KindNotFound: exitNotFound,
	segno.KindConflict: exitConflict, segno.KindRefused: exitRefused, segno.KindCorrupt: exitDamaged,
	segno.KindBusy: exitBusy, segno.KindFenced: exitBusy, segno.KindNewer: exitNewer, segno.KindIO: exitIO,
	segno.KindPartial: exitConflict, segno.KindCancelled: exitCancelled,
}

// errSilent ends the command with [exitConflict] after it has said everything.
var errSilent = &segno.Error{Kind: segno.KindPartial}

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) {
		return exitCancelled
	}
	return exitCodes[segno.KindOf(err)]
}
