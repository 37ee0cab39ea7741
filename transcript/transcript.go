// Package transcript defines the optional abilities of a [segno.Transcript] beyond reading and
// cutting one session. Examples are listing the sessions of a machine, capturing many turns at
// once, and writing a session back. The packages below it implement them, one for each agent.
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

// SessionFile is a session on the disk, with the facts that its directory entry shows.
type SessionFile struct {
	Session  segno.SessionID
	Path     string
	Bytes    int64
	Modified time.Time
	IsShared bool // the file at Path also has other sessions, so its times are not the times of this one
}

// SessionHeader has the facts at the beginning and the end of a session's transcript.
type SessionHeader struct {
	Dir   string // the directory in which the session runs, or "" if the transcript does not show it
	Title string // the title, or the first prompt in full, or ""
	Turns int    // the number of turns, or -1 if it is unknown because the transcript was not read whole
	// End is the offset behind the last record of the conversation. A capture up to this offset has the
	// whole conversation. End is 0 if there is no conversation.
	End int64
	// FromOthers means that a part of the header comes from other files. The header may then change although the
	// session's file does not.
	FromOthers bool
	// HasNoTurn means that no turn of a user began in the session. All its turns were copied from another session, it has a part of a turn of
	// another session, as a subagent's has, or the user has not prompted the agent.
	HasNoTurn bool
}

// Discovery is the ability of a [segno.Transcript] to list the sessions on this machine.
type Discovery interface {
	// Sessions yields the agent's sessions in no particular order. It does not open a file whose name has the
	// session's id. For a file that cannot be a session of the agent (a FIFO, a link out of the agent's
	// directory) or that cannot be read, Sessions yields a [segno.Error] that names it, and continues.
	Sessions(ctx context.Context) iter.Seq2[SessionFile, error]
	// Header reads a session of at most most bytes whole. It reads only the beginning and the end of a larger
	// session, no more than 128 KiB.
	Header(ctx context.Context, file SessionFile, most int64) (SessionHeader, error)
	// Running returns the sessions that a process has open, with the id of the process, or -1 if it is not known.
	Running(ctx context.Context) map[segno.SessionID]int
	// Retention returns the age, counted from the last change, at which the agent may delete a
	// session. ok is false if the agent deletes none.
	Retention() (age time.Duration, ok bool)
}

// OtherFiles is the ability of a [segno.Transcript] whose sessions have files beside their transcripts, such as the transcripts of
// subagents.
type OtherFiles interface {
	// OthersStamp returns a number that changes with the names, sizes and modification times of a session's other files. It opens none
	// of them. The number is 0 if there are none, or if they cannot be listed.
	OthersStamp(file SessionFile) uint64
}

// Restorer is the ability of a [segno.Transcript] to write back a session that the agent no longer has.
type Restorer interface {
	// Restore writes the bytes of p and its sidecars, exactly as they were captured, to the place where the
	// agent looks for the session in dir. If the agent has a file with that name and other bytes, Restore
	// writes nothing and returns [segno.KindConflict].
	Restore(ctx context.Context, p segno.Position, dir string, o segno.Objects) (segno.Source, error)
}

// TurnCapturer is the ability of a [segno.Transcript] to capture several turns at once.
type TurnCapturer interface {
	// CaptureTurns is Capture with two differences. Earlier has all completed turns after prev except the
	// newest one, and Follows is the leaf before the oldest of them. If of is not nil, the session is a fork
	// of another session at the position of. The log of the new position may then refer to the log of of,
	// which is in o, as with CaptureCut.
	CaptureTurns(ctx context.Context, src segno.Source, prev, of *segno.Position, o segno.Objects, b segno.Batch, known func(leaf string) bool) (segno.Captured, error)
}

// TurnEndCapturer is the ability of a [segno.Transcript] whose agent records the end of a turn after
// the hook that captures the turn.
type TurnEndCapturer interface {
	// CaptureTurnEnd puts the record of the end of p's turn into b and returns the position behind the
	// record. It returns p if p already has the record, or if src does not have the record directly behind
	// p. The cost does not depend on the size of the session. Errors are those of Capture.
	CaptureTurnEnd(ctx context.Context, src segno.Source, p segno.Position, b segno.Batch) (segno.Position, error)
}

// NoCutError is the error of a Cut or a Restore if segno cannot write the sessions of the agent on this
// machine. A move then leaves the conversation unchanged and shows the reason.
type NoCutError struct{ Why string }

func (e *NoCutError) Error() string { return e.Why }
