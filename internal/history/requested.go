package history

import (
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// Requested is a move that waits for the end of a turn, in a result. A later release may add fields, but removes none.
type Requested struct {
	Operation segno.OperationID `json:"operation"`
	Thread    segno.ThreadID    `json:"thread"`
	Actor     string            `json:"actor"`
	Time      time.Time         `json:"time"`
	Move      string            `json:"move"` // as the user would type it
}

// NewRequested converts a requested move.
func NewRequested(q timeline.Requested) Requested {
	return Requested{Operation: q.Operation, Thread: q.Thread, Actor: q.Actor, Time: q.Time, Move: q.String()}
}
