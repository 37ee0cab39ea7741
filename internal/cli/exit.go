package cli

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// The exit codes. docs/cli.md has the table, made from exitTable.
const (
	exitOK        = 0
	exitInternal  = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitConflict  = 4
	exitRefused   = 5
	exitDamaged   = 6
	exitBusy      = 7
	exitNewer     = 8
	exitIO        = 9
	exitWaits     = 10
	exitLate      = 11
	exitCancelled = 130
)

// exitTable says what each code means. It is append-only; a code that a script
// does not know means failure.
var exitTable = [...]struct {
	code int
	text string
}{
	{exitOK, "done"},
	{exitInternal, "segno's own mistake, or an error of no other kind"},
	{exitUsage, "the command line cannot be meant"},
	{exitNotFound, "the named object does not exist"},
	{exitConflict, "done, with conflicts: paths that were changed since were left as they are, or a path was not stored and cannot be brought back"},
	{exitRefused, "it would be unsafe now (a turn is open, the directory is too wide), or there was no terminal to ask on"},
	{exitDamaged, "something in the store or a transcript is damaged"},
	{exitBusy, "a lock was not to be had in time; try again"},
	{exitNewer, "the store was written by a newer segno"},
	{exitIO, "the disk or the operating system failed"},
	{exitCancelled, "interrupted"},
	{exitWaits, "a chat's tool call waits for approval; answer with 'segno chat --approve', --reject, --edit or --respond"},
	{exitLate, "nothing was done: another writer was first, or a thing of that name exists already"},
}

var exitCodes = map[segno.Kind]int{
	segno.KindInternal: exitInternal, segno.KindInvalid: exitUsage, segno.KindNotFound: exitNotFound,
	segno.KindConflict: exitLate, segno.KindRefused: exitRefused, segno.KindCorrupt: exitDamaged,
	segno.KindBusy: exitBusy, segno.KindFenced: exitBusy, segno.KindNewer: exitNewer, segno.KindIO: exitIO,
	segno.KindPartial: exitConflict, segno.KindCancelled: exitCancelled,
}

// errSilent ends the command with [exitConflict] after it has said everything.
var errSilent = segno.NewError(segno.KindPartial, "", "", nil)

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) {
		return exitCancelled
	}
	if waits := (*approvalError)(nil); errors.As(err, &waits) {
		return exitWaits
	}
	return exitCodes[segno.KindOf(err)]
}
