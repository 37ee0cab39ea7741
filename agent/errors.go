package agent

// Errors of runs and decisions, for [errors.Is]. See also [segno.ErrAnswered].
const (
	// ErrRunning: another run has the thread.
	ErrRunning = errText("the thread is already running")
	// ErrTurnOver: the turn has ended, so there is nothing to decide or to continue.
	ErrTurnOver = errText("the turn has ended")
	// ErrUndone: the turn of [Input.Begun] is not on the line of the thread.
	ErrUndone = errText("the turn was undone")
	// ErrNoReply: a wait with [Within] ended without a reply.
	ErrNoReply = errText("no reply came in time")
)

type errText string

func (e errText) Error() string { return string(e) }
