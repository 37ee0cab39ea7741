package proxy

import "time"

// Hasty is a run that waits that long for a turn that was cancelled, and for an agent that
// answered under the id of another request.
func (c Config) Hasty(wait time.Duration) Config {
	c.cancelWait, c.strayWait = wait, wait
	return c
}
