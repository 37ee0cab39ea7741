package workspace

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"sync"

	"github.com/dalsegno/segno"
)

// objectCache returns the objects of a store and, from memory, the directory objects of scanned
// trees. A snapshot can thus be compared before the commit that makes it durable.
type objectCache struct {
	segno.Objects
	mu   sync.Mutex
	data map[segno.Hash][]byte
}

func newObjectCache(objects segno.Objects) *objectCache {
	return &objectCache{Objects: objects, data: make(map[segno.Hash][]byte)}
}

// Get implements [segno.Objects].
func (c *objectCache) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	c.mu.Lock()
	data, ok := c.data[name]
	c.mu.Unlock()
	if ok {
		return bytes.Clone(data), nil
	}
	return c.Objects.Get(ctx, name)
}

// contentFiles is implemented by objects that are also files, such as those of a cache on the disk.
type contentFiles interface {
	// ContentFile opens a file with the bytes of an object. If there is none, the error is [fs.ErrNotExist].
	ContentFile(name segno.Hash) (*os.File, error)
}

// ContentFile implements contentFiles.
func (c *objectCache) ContentFile(name segno.Hash) (*os.File, error) {
	if files, ok := c.Objects.(contentFiles); ok {
		return files.ContentFile(name)
	}
	return nil, fs.ErrNotExist
}

// objectWriter adds the contents of files, and the objects that refer to them, to the batch of
// a scan. Without a batch it only hashes them, for a tree that need not be saved.
type objectWriter struct {
	batch segno.Batch
	cache *objectCache // receives the objects, but not the contents
}

func (w objectWriter) putContent(ctx context.Context, data []byte) (segno.Hash, error) {
	if w.batch == nil {
		return segno.HashOf(data), nil
	}
	return w.batch.Put(ctx, data)
}

func (w objectWriter) putObject(ctx context.Context, data []byte) (segno.Hash, error) {
	name, err := w.putContent(ctx, data)
	if err == nil {
		w.cache.mu.Lock()
		defer w.cache.mu.Unlock()
		w.cache.data[name] = data
	}
	return name, err
}

// hasAll reports whether all objects exist; it ignores zero hashes.
func (w objectWriter) hasAll(ctx context.Context, names ...segno.Hash) (bool, error) {
	has := w.cache.Has
	if w.batch != nil {
		has = w.batch.Has
	}
	for _, name := range names {
		if name.IsZero() {
			continue
		}
		if ok, err := has(ctx, name); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
