package kv

import "sync"

// maxCached is the largest number of values in a cache.
const maxCached = 1024

// cache holds some of the values that the store has read or written. A value may be stale: the
// caller verifies it.
type cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.values[k]
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[K]V{}
	}
	for old := range c.values {
		if len(c.values) < maxCached {
			break
		}
		delete(c.values, old)
	}
	c.values[k] = v
}

func (c *cache[K, V]) remove(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.values, k)
}
