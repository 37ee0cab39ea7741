// Package transcript has the abilities of a [segno.Transcript] beyond reading and cutting one
// session: listing the sessions of a machine, capturing many turns at once, and writing a
// session back. There is one directory per agent below it.
package transcript

import (
	"context"
	"iter"
	"time"

	"github.com/dalsegno/segno"
)

// DirRetention is the ability of a [Discovery] whose retention depends on settings in the directory of
// a session.
type DirRetention interface {
	// RetentionIn is Retention for an agent that runs in dir.
	RetentionIn(dir string) (age time.Duration, ok bool)
}

// SessionFile is a session on the disk, as the directory that has it shows it.
type SessionFile struct {
	Session  segno.SessionID
	Path     string
	Bytes    int64
	Modified time.Time
	IsShared bool // the file at Path has other sessions, too, so its times are not those of this one
}

// SessionHeader has the facts at the beginning and the end of a session's transcript.
type SessionHeader struct {
	Dir   string // the directory the session runs in, "" if the transcript does not show it
	Title string // the title, or the first prompt in full, or ""
	Turns int    // -1 if the transcript was not read whole, so they are not known
	// End is the offset behind the last record of the conversation. A capture up to
	// there has the whole conversation. It is 0 if there is no conversation.
	End int64
	// FromOthers means that some of it comes from other files, so it may change although the session's file does not.
	FromOthers bool
}

// Discovery is the ability of a [segno.Transcript] to list the sessions on this machine.
type Discovery interface {
	// Sessions yields the agent's sessions in no order, without opening a file whose name has
	// the session's id. A session
	// that cannot be one of the agent's (a FIFO, a link that leads out of the agent's
	// directory) or that cannot be read is yielded as an [segno.Error] that names it, and the list goes on.
	Sessions(ctx context.Context) iter.Seq2[SessionFile, error]
	// Header reads a session of at most the given number of bytes whole, and only the
	// beginning and the end of a larger one: no more than 128 KiB.
	Header(ctx context.Context, file SessionFile, most int64) (SessionHeader, error)
	// Running returns the sessions that a process has open, and the process, -1 if it is not known.
	Running(ctx context.Context) map[segno.SessionID]int
	// Retention returns the age, counted from the last change, at which the agent may delete a
	// session. ok is false if the agent deletes none.
	Retention() (age time.Duration, ok bool)
}

// Restorer is the ability of a [segno.Transcript] to write a session back that the agent no longer has.
type Restorer interface {
	// Restore writes the bytes of p and its sidecars, exactly as they were captured, to where
	// the agent looks for the session in dir. The error is [segno.KindConflict] if the agent has
	// anything of that name with other bytes. Nothing is written then.
	Restore(ctx context.Context, p segno.Position, dir string, o segno.Objects) (segno.Source, error)
}

// TurnCapturer is the ability of a [segno.Transcript] to capture several turns at once.
type TurnCapturer interface {
	// CaptureTurns is Capture, except that Earlier has all completed turns behind prev before
	// the newest one, and Follows is the leaf before the oldest of them. If of is not nil, the
	// session is a fork of a session at that position: the log of the new position may then
	// refer to the log of of, which is in o, as that of CaptureCut.
	CaptureTurns(ctx context.Context, src segno.Source, prev, of *segno.Position, o segno.Objects, b segno.Batch, known func(leaf string) bool) (segno.Captured, error)
}

// TurnEndCapturer is the ability of a [segno.Transcript] whose agent records the end of a turn after
// the hook that captures the turn.
type TurnEndCapturer interface {
	// CaptureTurnEnd puts the record of the end of p's turn into b and returns the position
	// behind it, or p if p has the record, or if src does not have it directly behind p. Its cost
	// does not depend on the size of the session. Errors are those of Capture.
	CaptureTurnEnd(ctx context.Context, src segno.Source, p segno.Position, b segno.Batch) (segno.Position, error)
}

// NoCutError is the error of a Cut or a Restore if the sessions of the agent cannot be written on
// this machine. A move then leaves the conversation where it is and shows the reason.
type NoCutError struct{ Why string }

func (e *NoCutError) Error() string { return e.Why }
