package web

import (
	"container/list"
	"sync"
)

// lru caches the most recently used values, up to a total weight. It is safe for concurrent use.
type lru[K comparable, V any] struct {
	most   int64
	mu     sync.Mutex
	used   int64
	byKey  map[K]*list.Element
	recent list.List // of *lruEntry, the one used last at the front
}

type lruEntry[K comparable, V any] struct {
	key    K
	value  V
	weight int64
}

func newLRU[K comparable, V any](most int64) *lru[K, V] {
	return &lru[K, V]{most: most, byKey: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return value, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true
}

// put adds a value, unless the value alone exceeds the limit.
func (c *lru[K, V]) put(key K, value V, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.remove(e)
	}
	if weight > c.most {
		return
	}
	c.byKey[key] = c.recent.PushFront(&lruEntry[K, V]{key, value, weight})
	for c.used += weight; c.used > c.most; {
		c.remove(c.recent.Back())
	}
}

func (c *lru[K, V]) remove(e *list.Element) {
	x := c.recent.Remove(e).(*lruEntry[K, V])
	delete(c.byKey, x.key)
	c.used -= x.weight
}
