package kv

import "sync"

// recent remembers the last of what was seen, as a guess that saves a round trip.
// What it says must be proved.
type recent[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

const mostRecent = 1024

func (r *recent[K, V]) get(k K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.of[k]
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[K]V{}
	}
	for old := range r.of {
		if len(r.of) < mostRecent {
			break
		}
		delete(r.of, old)
	}
	r.of[k] = v
}

func (r *recent[K, V]) drop(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, k)
}
