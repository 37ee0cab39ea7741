package workspace_test

import (
	"bytes"
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// memory is segno.Objects in a map.
type memory struct {
	mu      sync.Mutex
	objects map[segno.Hash][]byte
	puts    int
}

func newMemory() *memory { return &memory{objects: make(map[segno.Hash][]byte)} }

func (m *memory) Get(_ context.Context, name segno.Hash) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.objects[name]
	if !ok {
		return nil, segno.NewError(segno.KindNotFound, "get object", name.String(), nil)
	}
	if segno.HashOf(data) != name {
		return nil, segno.NewError(segno.KindCorrupt, "get object", name.String(), nil)
	}
	return bytes.Clone(data), nil
}

func (m *memory) Has(_ context.Context, name segno.Hash) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[name]
	return ok, nil
}

func (m *memory) Keep(context.Context, segno.Staged) error { return nil }
func (m *memory) Batch() segno.Batch                       { return &batch{to: m, new: make(map[segno.Hash][]byte)} }

// batch adds its objects to its store when it is staged.
type batch struct {
	to  *memory
	mu  sync.Mutex
	new map[segno.Hash][]byte
}

func (b *batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	name := segno.HashOf(data)
	known, _ := b.to.Has(ctx, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !known && b.new[name] == nil {
		b.new[name] = append([]byte{}, data...)
	}
	return name, nil
}

func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	b.mu.Lock()
	_, ok := b.new[name]
	b.mu.Unlock()
	if ok {
		return true, nil
	}
	return b.to.Has(ctx, name)
}

func (b *batch) Stage(context.Context) (segno.Staged, error) {
	b.to.mu.Lock()
	defer b.to.mu.Unlock()
	for name, data := range b.new {
		b.to.objects[name] = data
	}
	b.to.puts += len(b.new)
	return segno.Staged{}, nil
}

func (b *batch) Close() error { return nil }

// nowhere is a batch that hashes objects and drops them.
type nowhere struct{}

func (nowhere) Put(_ context.Context, data []byte) (segno.Hash, error) {
	return segno.HashOf(data), nil
}
func (nowhere) Has(context.Context, segno.Hash) (bool, error) { return false, nil }
func (nowhere) Stage(context.Context) (segno.Staged, error)   { return segno.Staged{}, nil }
func (nowhere) Close() error                                  { return nil }
