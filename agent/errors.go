package agent

import "github.com/dalsegno/segno"

// The errors that callers of [Agent.Stream] and [Agent.Decide] tell apart with [errors.Is].
const (
	// ErrAnswered: another decision on the question was recorded first.
	ErrAnswered = segno.ErrAnswered
	// ErrRunning: another run has the thread.
	ErrRunning = errText("another run has the thread")
	// ErrTurnOver: the turn has ended, and there is nothing to decide or to continue.
	ErrTurnOver = errText("the turn is over")
)

// errText is an error that is only its text.
type errText string

func (e errText) Error() string { return string(e) }
