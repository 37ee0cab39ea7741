package export

import (
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
)

// Header describes a thread.
type Header struct {
	Thread  segno.ThreadID
	Title   string
	Agent   string
	Created time.Time
	Parent  segno.ThreadID // the thread that this one is a part of, or ""
	Fork    *Fork          // nil if the thread is not a fork
	Chain   []Session
	Count   int  // the number of yielded turns that began with a prompt
	Whole   bool // the export is a whole line and not a single turn
}

// Fork is the place in another thread where a thread begins.
type Fork struct {
	Thread     segno.ThreadID
	Checkpoint segno.CommitID
}

// Session is a session of an agent in which the thread worked.
type Session struct {
	Agent   string
	Session segno.SessionID
	Start   time.Time
	Reason  string
}

// Turn is a checkpoint of a thread and the work that led to it. Most are ends of turns. The others
// are changes outside turns, and saves of the user.
type Turn struct {
	turns.Turn
	Name       string // "t3", or the first letters of the id
	Checkpoint segno.Checkpoint
	Inherited  bool // the turn belongs to the thread that this one was forked from
	Undone     bool // the turn is not on the line of the head
	End        time.Time
	Files      []File
	MoreFiles  int // the number of changed files that are not in Files
	Subagents  []Subagent
	Missing    []string // the parts that could not be read, with the reasons
}

// IsTurn reports whether a user's prompt began the turn.
func (t *Turn) IsTurn() bool {
	return t.Checkpoint.Kind == segno.CheckpointTurn || t.Checkpoint.Kind == segno.CheckpointStep
}

// File is a changed file.
type File struct {
	Path   string
	Sign   string // "+", "~", "-"
	Type   segno.EntityType
	Size   int64 // of the new content, or of the old one if the file was deleted
	Hash   segno.Hash
	Added  int // lines
	Gone   int
	Diff   []Line  // nil if there is no diff
	Ranges []Range // of new lines, see [Reader.Ranges]
	Image  *turns.Image
	Why    string // the reason why the diff is missing or truncated
}

// Line is a line of a diff. Op is ' ', '+', '-', or '@' for the beginning of a hunk.
type Line struct {
	Op   byte
	Text string
}

// Range is a range of lines in a file. It includes both ends, which count from 1.
type Range struct {
	From, To int
	Hash     segno.Hash        // of these lines
	By       *segno.Checkpoint // that first brought them; nil for that of the turn
}

// Subagent is the work of a subagent in a turn.
type Subagent struct {
	ID     string
	Parent string // the call that started it, or ""
	Calls  []*turns.Call
}
