package proxy

import (
	"time"

	"github.com/dalsegno/segno"
)

// Hasty returns a config that waits this long for a cancelled turn, and for an agent that
// answered under the id of another request.
func (c Config) Hasty(wait time.Duration) Config {
	c.cancelWait, c.strayWait = wait, wait
	return c
}

// Remember writes a record of a session. minutes is the time of its use, relative to a
// fixed time.
func Remember(store, id, thread, agent, dir string, minutes int) error {
	used := time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC)
	return sessionIndex{dir: store}.write(sessionRecord{Client: segno.SessionID(id), Thread: segno.ThreadID(thread), Agent: agent, Dir: dir, Used: used})
}
