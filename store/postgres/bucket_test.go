package postgres

import (
	"bytes"
	"context"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"testing"
)

type memoryBucket struct{ objects sync.Map }

func inMemory(*testing.T) Bucket { return new(memoryBucket) }

func (b *memoryBucket) Put(ctx context.Context, name string, data []byte) error {
	if _, exists := b.objects.LoadOrStore(name, bytes.Clone(data)); exists {
		return fs.ErrExist
	}
	return ctx.Err()
}

func (b *memoryBucket) Get(_ context.Context, name string) ([]byte, error) {
	data, ok := b.objects.Load(name)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(data.([]byte)), nil
}

func (b *memoryBucket) Delete(_ context.Context, name string) error {
	b.objects.Delete(name)
	return nil
}

func (b *memoryBucket) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		b.objects.Range(func(name, _ any) bool {
			return !strings.HasPrefix(name.(string), prefix) || yield(name.(string), nil)
		})
	}
}

func namesIn(t *testing.T, b Bucket) (names []string) {
	t.Helper()
	for name, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}
