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
	{exitInternal, "an internal error, or an error that has no other code"},
	{exitUsage, "the command line is not valid"},
	{exitNotFound, "the named object does not exist"},
	{exitConflict, "done, with conflicts: some paths changed since and were not overwritten, or their content was never stored"},
	{exitRefused, "refused: not safe now (a turn is open, the directory is too wide), or no terminal to ask on"},
	{exitDamaged, "something in the store or a transcript is damaged"},
	{exitBusy, "another process held a lock for too long; try again"},
	{exitNewer, "the store was written by a newer segno"},
	{exitIO, "the disk or the operating system failed"},
	{exitCancelled, "interrupted"},
	{exitWaits, "a chat's tool call waits for approval; answer with 'segno chat --approve', --reject, --edit or --respond"},
	{exitLate, "nothing was done: another process changed the thread first, or the name is already in use"},
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
