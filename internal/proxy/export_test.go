package proxy

import "time"

// Hasty is a run that waits that long for a turn that was cancelled.
func (c Config) Hasty(cancelWait time.Duration) Config {
	c.cancelWait = cancelWait
	return c
}
