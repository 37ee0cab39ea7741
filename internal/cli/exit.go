package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
)

// The exit codes that code outside this file uses.
const (
	ExitOK        = 0
	ExitInvalid   = 2
	exitConflict  = 4
	ExitWaits     = 10
	ExitUnsafe    = 12
	ExitSecret    = 13
	ExitParked    = 14
	exitCancelled = 130
)

// exitTable contains the exit codes, the kinds of errors that they stand for, and their
// descriptions in docs/cli.md. It is append-only. A script must treat an unknown code as a failure.
var exitTable = [...]struct {
	code  int
	kinds []segno.Kind
	text  string
}{
	{ExitOK, nil, "done"},
	{1, []segno.Kind{segno.KindInternal}, "an internal error, or an error that has no other code"},
	{ExitInvalid, []segno.Kind{segno.KindInvalid}, "the command line is not valid"},
	{3, []segno.Kind{segno.KindNotFound}, "the named object does not exist"},
	{exitConflict, []segno.Kind{segno.KindPartial},
		"done, but not complete, and the result lists the rest: some paths changed since and were not overwritten, their content was never stored, " +
			"an attached database could not be read or copied in full, a session could not be kept, the thread that a push or a pull changes has other new commits " +
			"or is in use, or a bisect found several checkpoints"},
	{5, []segno.Kind{segno.KindRefused}, "refused: not safe now (a turn is open, the directory is too broad), or no terminal for the confirmation"},
	{6, []segno.Kind{segno.KindCorrupt}, "something in the store, a transcript or an archive is damaged"},
	{7, []segno.Kind{segno.KindBusy, segno.KindFenced}, "another process held a lock for too long; try again"},
	{8, []segno.Kind{segno.KindNewer}, "the store or the archive was written by a newer segno"},
	{9, []segno.Kind{segno.KindIO}, "the disk, the operating system, the network or a server failed, or the command of a bisect ended with a code from 128 on"},
	{exitCancelled, []segno.Kind{segno.KindCancelled}, "interrupted"},
	{ExitWaits, nil, "a chat's tool call waits for approval; answer with 'segno chat --approve', --reject, --edit or --respond. So does a prompt that was sent " +
		"to a fleet; answer with 'segno fleet decide'"},
	{11, []segno.Kind{segno.KindConflict}, "not done: another process changed the thread first, the name is already in use, or an earlier move that was interrupted was completed instead"},
	{ExitUnsafe, nil, "an archive is unsafe: programs could read it in different ways, or a file or a link of it would be outside the directory; " +
		"nothing was written. An archive that was changed on purpose looks like this; so can a damaged one"},
	{ExitSecret, nil, "nothing was written: the scan found a secret"},
	{ExitParked, nil, "a prompt that was sent to a fleet has no answer: it failed too often and is parked, or was cancelled"},
}

// ExitRow is a row of the table of exit codes.
type ExitRow struct {
	Code int
	Text string
}

// ExitTable returns the table of exit codes for docs/cli.md.
func ExitTable() (rows []ExitRow) {
	for _, e := range exitTable {
		rows = append(rows, ExitRow{e.code, e.text})
	}
	return rows
}

// ErrSilent ends the command with [exitConflict] and without a message, because the printed result already lists the
// conflicts.
var (
	ErrSilent  = segno.NewError(segno.KindPartial, "", "", errPrinted)
	errPrinted = errors.New("the result lists the conflicts")
)

// exitCode returns the code of an error: that of a wing, or that of the error's kind.
func (a *App) exitCode(err error) int {
	if code, _ := a.reportOf(err); code != 0 {
		return code
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return exitCancelled
	}
	for _, e := range exitTable {
		if slices.Contains(e.kinds, segno.KindOf(err)) {
			return e.code
		}
	}
	return 1
}

// reportOf returns what the wings add to the report of an error; see [Wing].
func (a *App) reportOf(err error) (code int, fields map[string]any) {
	for _, w := range a.wings {
		if w.Report == nil || err == nil || errors.Is(err, context.Canceled) {
			continue
		}
		if code, fields = w.Report(err); code != 0 {
			break
		}
	}
	return code, fields
}
