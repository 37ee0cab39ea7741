package database

import (
	"context"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
)

// recent has the documents and the lists of pages of the two newest snapshots. The store cannot return them until the
// snapshots are committed.
type recent struct {
	store segno.Objects

	mu           sync.Mutex
	newest, last map[segno.Hash][]byte
}

// begin starts the record of a new snapshot, and forgets the older of the two.
func (r *recent) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest, r.last = map[segno.Hash][]byte{}, r.newest
}

// put adds an object to a batch.
func (r *recent) put(ctx context.Context, b segno.Batch, data []byte) (segno.Hash, error) {
	h, err := b.Put(ctx, data)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.newest[h] = slices.Clone(data)
	}
	return h, err
}

// keep makes an object of the last snapshot one of the new snapshot, too.
func (r *recent) keep(name segno.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if data, ok := r.last[name]; ok {
		r.newest[name] = data
	}
}

// Get returns an object of a recent snapshot or of the store.
func (r *recent) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	r.mu.Lock()
	data, ok := r.newest[name]
	if !ok {
		data, ok = r.last[name]
	}
	r.mu.Unlock()
	if ok {
		return slices.Clone(data), nil
	}
	return r.store.Get(ctx, name)
}
