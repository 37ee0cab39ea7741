package web

import "time"

// Patient returns a config whose searches have time enough on a busy machine: one request then has all hits, and those of the index come
// first.
func (c Config) Patient() Config {
	c.searchTime, c.indexTime = time.Hour, time.Hour
	return c
}
