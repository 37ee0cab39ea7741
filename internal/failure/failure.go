// Package failure knows what an agent of the Agent Client Protocol shows when
// something is wrong, and what that means for the turn and for the session.
//
// The protocol has four errors for this and no rule for when to use them, so each
// agent has ways of its own: a session that is gone has six faces, and one agent
// ends a turn that failed with end_turn. What is known is a table of rows; a test
// shows each row the frames that agents were seen to send.
//
// The table errs on one side. A prompt that is sent again without need may do its
// work twice, so only a row can say that a prompt was not started, and what the
// turn has shown overrules the row.
package failure

import (
	"strings"

	"github.com/dalsegno/segno/internal/acp"
)

// Outcome is how a request to an agent ended, and what was seen until then.
type Outcome struct {
	Agent, Version string // agentInfo's name and version; "" if it told none
	Method         string
	Err            *acp.Error // nil if there was a result
	Exited         bool       // the agent's process ended without an answer

	// Of a prompt's result:
	Stop         string // stopReason
	OutputTokens int    // of usage; -1 if it is not told
	// Category and Title are of _meta.jetbrains.air.sessionFailure. It stands for
	// an error, and nothing else does, where the client announced that it knows it.
	Category, Title string

	// Of the turn, until the answer came:
	Text        string // what the agent said; the end of it, if it is cut
	Tools       int    // tool calls
	Updates     int    // updates of any kind
	SystemError bool   // the last _meta.codex.threadStatus.type was systemError
	Fresh       bool   // the session was made, resumed or loaded since the turn before
}

// Meaning is what an outcome means. The zero Meaning is that nothing is wrong.
type Meaning struct {
	Name    string // the stable name of what is wrong; "" if nothing is
	Session Session
	Turn    Turn
	Message string // one lower-case line for people
}

// Session is what became of the session.
type Session uint8

const (
	// Kept: it is as it was, and takes the next prompt.
	Kept Session = iota
	// Lost: the agent does not have it under this id any more. It must be resumed,
	// loaded, or built again.
	Lost
	// Dead: the agent's process is gone or of no use, and all its sessions with it.
	// It must be started again before anything else is asked of it.
	Dead
)

func (s Session) String() string { return [...]string{"kept", "lost", "dead"}[s] }

// Turn is what became of the turn that a prompt began. For other requests it is
// [Failed] where their error is for the user and nothing helps but what it says,
// else [Fine].
type Turn uint8

const (
	// Fine: it ended as it should.
	Fine Turn = iota
	// NotStarted: the prompt came to nobody and may be sent again.
	NotStarted
	// Seen: it may have had effects. The agent may be asked to go on; the prompt
	// is never sent again.
	Seen
	// Failed: it ended with an error that the user must see. Nothing is sent.
	Failed
)

func (t Turn) String() string { return [...]string{"fine", "not started", "seen", "failed"}[t] }

// Classify tells what an outcome means, by the first row that is true of it.
func Classify(o Outcome) Meaning {
	row := find(o)
	if row == nil {
		return Meaning{}
	}
	m := row.Is
	switch {
	case m.Turn != NotStarted && m.Turn != Seen:
	case o.Method != "session/prompt":
		m.Turn = Fine
	case m.Turn == NotStarted && o.begun(row):
		m.Turn = Seen
	}
	return m
}

// begun reports whether the turn shows that somebody took the prompt up. A row of
// no agent in particular is trusted less: there any update does.
func (o Outcome) begun(row *Row) bool {
	return o.Tools > 0 || o.said() != "" || row.Agent == "" && o.Updates > 0
}

// asides begin what an adapter says of itself between what the model says.
var asides = [...]string{"warning: ", "config warning: ", "**notice:** ", "*context compacted"}

// said is what was said in lower case, without the asides.
func (o Outcome) said() string {
	var said []string
paragraphs:
	for p := range strings.SplitSeq(strings.ToLower(o.Text), "\n\n") {
		p = strings.TrimSpace(p)
		for _, aside := range asides {
			if strings.HasPrefix(p, aside) {
				continue paragraphs
			}
		}
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, "\n\n")
}
