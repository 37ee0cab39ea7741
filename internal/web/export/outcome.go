package export

import (
	"fmt"
	"time"

	"github.com/dalsegno/segno/internal/history/turns"
)

// outcome describes the end of a call.
func outcome(c *turns.Call) (s string) {
	if c.Exit != nil && *c.Exit != 0 {
		s += fmt.Sprintf(" · exit %d", *c.Exit)
	} else if c.Failed {
		s += " · failed"
	}
	if took := c.Took(); took >= time.Millisecond {
		s += " · " + took.Round(time.Millisecond).String()
	}
	if !c.Done {
		s += " · no result recorded"
	}
	return s
}
