package transcript

import (
	"context"

	"github.com/dalsegno/segno"
)

// Finding is damage of a session: a part of its transcript that its agent silently skips, or that
// the agent sends and the API of the model rejects.
type Finding struct {
	Code   string `json:"code"`   // the kind of damage: one of the Code constants, whose values never change
	Line   int    `json:"line"`   // from 1
	Offset int64  `json:"offset"` // the offset of the damage, in bytes from the beginning
	Why    string `json:"why"`    // the effect on the agent
	Repair string `json:"repair"` // the change that a repair makes
	// Turn is the turn of a tool call whose result was lost. The call may have changed files.
	Turn segno.TurnKey `json:"turn,omitempty"`
}

// The codes of findings. Some codes occur for some agents only.
const (
	CodeNotJSON         = "not-json"            // a line that is not a record
	CodeGlued           = "glued-lines"         // several records, or a record and a part of another one, on one line
	CodeTorn            = "torn-line"           // the last line is incomplete
	CodeNoNewline       = "no-newline"          // the last line has no end, so the next record is appended to it
	CodeNUL             = "nul-bytes"           // zeros in place of a block that never reached the disk
	CodeNotUTF8         = "not-utf8"            // bytes that are not text
	CodeNoParent        = "missing-parent"      // all earlier turns are lost with a record
	CodeTwoWriters      = "two-writers"         // a turn that another process wrote is not in the conversation
	CodeNoResult        = "call-without-result" // a tool call has no result
	CodeNoCall          = "result-without-call"
	CodeDuplicateCall   = "duplicate-call"
	CodeDuplicateResult = "duplicate-result"
	CodeUnsigned        = "unsigned-thinking"
	CodeImage           = "bad-image"
	CodeEmptyText       = "empty-text"
	CodeNoMeta          = "missing-meta" // the first line, with the id and the directory of the session
	CodeOrdinal         = "wrong-ordinal"
	CodeOrder           = "wrong-order"       // lines are not in the order in which the agent wrote them
	CodeRepeated        = "repeated-line"     // the same line occurs more than once
	CodeUnreadable      = "unreadable-record" // JSON, but not a record that the agent can read
	CodeDuplicateUUID   = "duplicate-uuid"    // two records have one name, so one of them is lost
	CodeSplit           = "split-record"      // a record on several lines
	CodeBOM             = "byte-order-mark"
	CodeWrongID         = "wrong-session-id" // the first line has another id
)

// Diagnosis is the result of a check.
type Diagnosis struct {
	Findings []Finding // in the order of their lines
	// Before is the part of the session that the agent reads, and After is the part of the repaired copy
	// that it reads. They are equal if there are no findings.
	Before, After Reading
}

// CanContinue reports whether the agent continues the session, or the repaired copy if there is damage.
func (d Diagnosis) CanContinue() bool { return d.After.Refusal == "" && d.After.Messages > 0 }

// Reading is the part of a session that an agent reads when it continues the session, according to a
// model of the agent's loader.
type Reading struct {
	// Refusal is why the agent does not continue the session, or "".
	Refusal string `json:"refusal,omitempty"`
	// Lines are the lines with the messages that the agent sends to the model, in the order of the file.
	Lines []int `json:"-"`
	// Messages is the number of these messages, and Total is the number of all messages of the session.
	// The agent leaves out messages beside the conversation, for example after the user went back to an
	// earlier prompt. It also leaves out messages before a compaction, and messages that damage hides.
	Messages int `json:"messages"`
	Total    int `json:"total"`
}

// LintOptions are the optional settings of a check.
type LintOptions struct {
	// Join also finds turns that are beside the conversation although no two processes wrote at the same
	// time. The cause can be that the user went back, or that two processes wrote alternately.
	Join bool
}

// Linter is the ability of a [segno.Transcript] to find damage in a session and to repair a copy.
type Linter interface {
	// Check returns the damage of a session. It writes nothing.
	Check(ctx context.Context, src segno.Source, o LintOptions) (Diagnosis, error)
	// Repair writes a copy of src as the session to, without the damage that it returns. All lines without
	// damage keep their bytes, apart from the id of the session. The copy appears whole or not at all, and
	// src stays unchanged. If there is no damage, or if the agent would not continue the copy, Repair writes
	// nothing and returns a source without a session and no error. Errors are those of
	// [segno.Transcript.Cut].
	Repair(ctx context.Context, src segno.Source, to segno.Target, o LintOptions) (segno.Source, Diagnosis, error)
}
