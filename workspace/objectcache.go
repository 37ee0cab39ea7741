package workspace

import (
	"bytes"
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// objectWriter takes what a scan finds: contents of files, and the objects around them.
type objectWriter interface {
	putContent(ctx context.Context, data []byte) (segno.Hash, error)
	putObject(ctx context.Context, data []byte) (segno.Hash, error)
}

// objectCache has the directory objects of the newest snapshot in memory, so that the
// snapshot can be compared before the commit that makes it durable.
type objectCache struct {
	mu      sync.Mutex
	data    map[segno.Hash][]byte
	objects getter
}

func newObjectCache(objects getter) *objectCache {
	return &objectCache{data: make(map[segno.Hash][]byte), objects: objects}
}

// Get returns an object of the newest snapshot, else one of the store.
func (c *objectCache) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	c.mu.Lock()
	data, ok := c.data[name]
	c.mu.Unlock()
	if ok {
		return bytes.Clone(data), nil
	}
	return c.objects.Get(ctx, name)
}

func (c *objectCache) add(name segno.Hash, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data[name] = data
}

// batchWriter puts everything into a batch, and adds the objects to a cache.
type batchWriter struct {
	batch segno.Batch
	cache *objectCache
}

func (w batchWriter) putContent(ctx context.Context, data []byte) (segno.Hash, error) {
	return w.batch.Put(ctx, data)
}

func (w batchWriter) putObject(ctx context.Context, data []byte) (segno.Hash, error) {
	name, err := w.batch.Put(ctx, data)
	if err == nil {
		w.cache.add(name, data)
	}
	return name, err
}

// scratchObjects are the objects of a store and, in memory, those of trees that are scanned
// without being saved. It hashes contents and drops them.
type scratchObjects struct {
	segno.Objects
	cache *objectCache
}

func newScratchObjects(objects segno.Objects) *scratchObjects {
	return &scratchObjects{objects, newObjectCache(objects)}
}

// Get implements [segno.Objects].
func (s *scratchObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	return s.cache.Get(ctx, name)
}

func (s *scratchObjects) putContent(_ context.Context, data []byte) (segno.Hash, error) {
	return segno.HashOf(data), nil
}

func (s *scratchObjects) putObject(_ context.Context, data []byte) (segno.Hash, error) {
	name := segno.HashOf(data)
	s.cache.add(name, data)
	return name, nil
}
