package proxy

import (
	"time"

	"github.com/dalsegno/segno"
)

// Hasty is a run that waits that long for a turn that was cancelled, and for an agent that
// answered under the id of another request.
func (c Config) Hasty(wait time.Duration) Config {
	c.cancelWait, c.strayWait = wait, wait
	return c
}

// Remember writes the page of a session that was used so many minutes after the first.
func Remember(store, id, thread, agent, dir string, minutes int) error {
	used := time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC)
	return book{dir: store}.write(page{Client: segno.SessionID(id), Thread: segno.ThreadID(thread), Agent: agent, Dir: dir, Used: used})
}
