package workspace

import (
	"bytes"
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// recent holds the directory objects of the newest snapshot, so that it can be
// compared before the commit that makes it durable.
type recent struct {
	mu   sync.Mutex
	data map[segno.Hash][]byte
	next getter
}

func newRecent(next getter) *recent { return &recent{data: map[segno.Hash][]byte{}, next: next} }

// Get returns an object of the newest snapshot, else one of the store.
func (r *recent) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	r.mu.Lock()
	data, ok := r.data[name]
	r.mu.Unlock()
	if ok {
		return bytes.Clone(data), nil
	}
	return r.next.Get(ctx, name)
}

func (r *recent) keep(name segno.Hash, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data[name] = data
}

// batchSink puts everything into a batch, and remembers the objects.
type batchSink struct {
	b      segno.Batch
	recent *recent
}

func (s batchSink) content(ctx context.Context, data []byte) (segno.Hash, error) {
	return s.b.Put(ctx, data)
}

func (s batchSink) object(ctx context.Context, data []byte) (segno.Hash, error) {
	name, err := s.b.Put(ctx, data)
	if err == nil {
		s.recent.keep(name, data)
	}
	return name, err
}
